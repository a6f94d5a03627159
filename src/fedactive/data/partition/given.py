"""Clients that the data have of themselves: hospitals, writers, devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedactive.data.readers import Array, bad_file, medmnist
from fedactive.data.soundness import guarded

CLIENTS = "train_clients"


def given(clients: Array) -> list[NDArray[np.int64]]:
    """Return the samples of each client, from the number of the client of each sample."""
    return [np.flatnonzero(clients == k) for k in range(int(clients.max()) + 1)]


def read_clients(path: Path) -> tuple[tuple[str, ...], Array] | None:
    """Read who has each training sample: the clients' names, sorted, and for each sample its client's number.

    None if the file does not say. Names may be texts or whole numbers.
    """
    found = guarded(lambda file: medmnist.read_if_there(file, (CLIENTS, "train_labels")), path)
    if CLIENTS not in found:
        return None
    if "train_labels" not in found:
        raise bad_file(path, "the array train_labels is missing")
    clients = found[CLIENTS]
    if clients.ndim != 1 or clients.dtype.kind not in "iuU":
        raise bad_file(
            path, f"{CLIENTS} are {clients.dtype} {clients.shape}, expected a name for each sample"
        )
    samples = len(np.atleast_1d(found["train_labels"]))
    if len(clients) != samples:
        count = f"{len(clients)} names for {samples} training samples"
        raise bad_file(path, f"{CLIENTS} are {count}, expected one for each")
    if clients.dtype.kind == "U" and (clients == "").any():
        raise bad_file(path, f"{CLIENTS} lack a name, in row {int((clients == '').argmax())}")
    names, numbers = np.unique(clients, return_inverse=True)
    return tuple(map(str, names)), numbers

"""Files that run a program where they are read carelessly: the program only leaves a mark."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import zipfile
from functools import cache
from typing import Any

import numpy as np
import torch

from fedactive.record.run_folder import MAGIC

EXECUTED = "executed"  # the mark


class Payload:
    """What a pickle of this does when it is read: it makes a folder where the program was started."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (EXECUTED,)


def plain() -> bytes:
    return pickle.dumps(Payload())


def array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Payload()], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def archive(*roles: str) -> bytes:
    """Make an .npz file, all of whose arrays are pickles."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for role in roles or ("train_images", "train_labels", "test_images", "test_labels", "classes"):
            file.writestr(f"{role}.npy", array())
    return buffer.getvalue()


def checkpoint() -> bytes:
    """Make a file of torch.save, as of a checkpoint: what is not a tensor is a pickle."""
    buffer = io.BytesIO()
    torch.save({"weights": Payload(), "al_round": 2}, buffer)
    return buffer.getvalue()


def sealed() -> bytes:
    """Make a checkpoint of ours: whoever writes one can also write its checksum."""
    body = checkpoint()
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def script(sound: bytes) -> bytes:
    """Put the pickle into a sound TorchScript file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sound)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, plain() if name.endswith(".pkl") else old.read(name))
    return buffer.getvalue()


@cache
def payloads() -> tuple[bytes, ...]:
    return plain(), array(), archive(), checkpoint(), sealed()

"""Datasets made in Python: samples are written once into the cache, and found again there by their content.

So a run that is resumed, a worker process, a report or an export need nothing of the program that made them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fedactive.data.dataset import Dataset
from fedactive.data.own_file import DIGITS, FROM_PYTHON, short_name
from fedactive.data.own_images import SIDES, class_names, require_every_class
from fedactive.data.partition.given import CLIENTS, read_clients
from fedactive.data.pictures import GREY, Pixels, fit
from fedactive.data.pixel_map import normalisation_of, open_map
from fedactive.data.readers import Array, medmnist
from fedactive.data.report import Report
from fedactive.data.resize import resize
from fedactive.data.soundness import form, require_sound_labels
from fedactive.errors import ConfigurationError, DataError, RunError
from fedactive.files import CACHE, cache_folder

SPLITS = ("train", "test")
LABELS = "labels.npz"


class FromPython:
    """A dataset that was written into the cache."""

    def __init__(self, dataset: str, sha256: str) -> None:
        self.name, self.sha256 = short_name(dataset), sha256
        self.folder = cache_folder("python") / sha256[:DIGITS]
        if not sha256 or not (self.folder / LABELS).is_file():
            made = "one made by fedactive.Dataset.of_samples, given as it is"
            kept = f"one that is still in {cache_folder('python')}; make it again, of the same samples"
            raise ConfigurationError("dataset", dataset, kept if sha256 else made)

    @property
    def digest(self) -> str:
        return self.sha256[:DIGITS]

    @property
    def classes(self) -> tuple[str, ...]:
        return class_names(self.folder / LABELS)

    @property
    def clients(self) -> tuple[tuple[str, ...], Array] | None:
        return read_clients(self.folder / LABELS)

    def load(self, size: int, report: Report) -> Dataset:
        read = medmnist.read_arrays(self.folder / LABELS, ("train_labels", "test_labels", "shape"))
        shape, clients = tuple(map(int, read["shape"])), self.clients
        labels = {split: torch.from_numpy(read[f"{split}_labels"]) for split in SPLITS}
        maps = {
            split: open_map(self.folder / f"{split}.pixels", len(labels[split]), shape) for split in SPLITS
        }
        mean, std = normalisation_of(self.folder / "train.pixels", maps["train"])
        return Dataset(
            name=self.name,
            train_inputs=maps["train"],
            train_labels=labels["train"],
            test_inputs=maps["test"],
            test_labels=labels["test"],
            classes=self.classes,
            mean=mean,
            std=std,
            train_clients=None if clients is None else torch.from_numpy(clients[1]),
            origin=self.digest,
        )


def keep(
    name: str,
    samples: dict[str, Iterable[tuple[Any, Any]]],
    classes: Sequence[str] | None,
    clients: Sequence[Any] | None,
    size: int,
) -> Dataset:
    """Write the samples into the cache, one at a time; return the dataset."""
    home = cache_folder("python")
    folder = None
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=home, prefix="."))
        writer = Writer(name, folder, size)
        arrays: dict[str, Array] = {
            f"{split}_labels": writer.write(split, samples[split]) for split in SPLITS
        }
        arrays["shape"] = np.array(writer.shape)
        if classes is not None:
            arrays["classes"] = np.array([str(c) for c in classes])
        if clients is not None:
            arrays[CLIENTS] = np.array([str(client) for client in clients])
        np.savez(folder / LABELS, allow_pickle=False, **arrays)
        check(name, folder / LABELS, arrays)
        for role in sorted(arrays):
            writer.found.update(role.encode() + arrays[role].tobytes())
        sha256 = writer.found.hexdigest()
        kept = home / sha256[:DIGITS]
        if not (kept / LABELS).is_file():
            os.replace(folder, kept)
    except OSError as error:
        raise RunError(
            f"cannot write the dataset {name} to {home}: {error.strerror}; "
            f"set the variable {CACHE} to a folder with room"
        ) from None
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return FromPython(f"{FROM_PYTHON}{name}", sha256).load(0, lambda done, total: None)


def check(name: str, path: Path, arrays: dict[str, Array]) -> None:
    """Refuse labels, names and clients that do not fit, as those of an .npz file."""
    try:
        classes = class_names(path)
        counts = {split: arrays[f"{split}_labels"] for split in SPLITS}
        require_sound_labels(path, counts, arrays, len(classes))
        require_every_class(path, arrays["train_labels"], classes)
        read_clients(path)
    except DataError as error:
        raise DataError(str(error).replace(str(path), f"dataset {name}", 1)) from None


class Writer:
    """Writes samples to files of pixels. The first image says what shape all have."""

    def __init__(self, name: str, folder: Path, size: int) -> None:
        self.name, self.folder, self.size = name, folder, size
        self.shape: tuple[int, ...] = ()
        self.found = hashlib.sha256()

    def write(self, split: str, samples: Iterable[tuple[Any, Any]]) -> NDArray[np.int64]:
        """Write the images of a split; return their labels."""
        labels = []
        with open(self.folder / f"{split}.pixels", "wb") as file:
            for k, sample in enumerate(in_order(samples)):
                try:
                    image, label = sample
                    pixels = self.fitting(image)
                    labels.append(int(label))
                except (ValueError, TypeError) as error:
                    raise DataError(f"dataset {self.name}: sample {k} of {split}: {error}") from None
                file.write(pixels.data)
                self.found.update(pixels.data)
        return np.array(labels, dtype=np.int64)

    def fitting(self, image: Any) -> Pixels:
        """Return the image in the shape of all; ValueError says why it cannot be."""
        pixels = to_pixels(image)
        if self.size:
            pixels = resize(torch.from_numpy(pixels)[None], self.size)[0].numpy()
        if not self.shape:
            if not all(side in SIDES for side in pixels.shape[1:]):
                sides = f"{SIDES[0]} to {SIDES[-1]} pixels in height and width"
                raise ValueError(f"it is {form(pixels.shape)}, expected {sides}; size=64 resizes images")
            self.shape = pixels.shape
        if len(pixels) == 1 < self.shape[0]:
            pixels = pixels.repeat(3, axis=0)
        if pixels.shape != self.shape:
            raise ValueError(
                f"it is {form(pixels.shape)}, the first is {form(self.shape)}; size=64 resizes all to squares"
            )
        return np.ascontiguousarray(pixels)


def in_order(samples: Any) -> Iterator[Any]:
    """Iterate as a DataLoader does: by position, where there is a length."""
    if hasattr(samples, "__getitem__") and hasattr(samples, "__len__"):
        return (samples[k] for k in range(len(samples)))
    return iter(samples)


def to_pixels(image: Any) -> Pixels:
    """Return uint8 (channels, height, width) of a PIL image, an array (height, width[, 3]) or a tensor."""
    if isinstance(image, Image.Image):
        return fit(image, (1 if image.mode in GREY else 3, image.height, image.width)).copy()
    if isinstance(image, torch.Tensor):
        array = image.detach().cpu().numpy()
    elif isinstance(image, np.ndarray):
        array = np.moveaxis(image, -1, 0) if image.ndim == 3 else image
    else:
        raise TypeError(f"it is a {type(image).__name__}, expected a PIL image, an array or a tensor")
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise ValueError(f"its shape is {tuple(image.shape)}, expected one or three channels")
    if array.dtype.kind == "f" and ((array >= 0) & (array <= 1)).all():
        return (array * 255).round().astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(f"its pixels are {array.dtype}, expected uint8, or real numbers from 0 to 1")
    return array

"""Find what is to be predicted: image files, folders of them, arrays, .npz files of images or features."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from fedactive.data.deep import Deep
from fedactive.data.loader import DataWarning
from fedactive.data.own_features import read_features
from fedactive.data.pictures import fit, see
from fedactive.data.readers import medmnist
from fedactive.data.resize import resize
from fedactive.data.soundness import guarded
from fedactive.errors import DataError
from fedactive.export.description import Description
from fedactive.files import expand_home
from fedactive.sites.site.image_files import find_images

# Of the arrays in an .npz file, the first that is there.
IMAGES, FEATURES = ("images", "test_images"), ("features", "test_features")

Given: TypeAlias = "str | PathLike[str] | NDArray[Any] | Iterable[str | PathLike[str]]"


class Sample(NamedTuple):
    name: str
    read: Callable[[], Tensor | str]  # in the shape that the model takes; or why it cannot be read


def find_samples(given: Given, wanted: Description) -> list[Sample]:
    """List the samples in what was given, in the order of names; DataError if there is none."""
    if isinstance(given, np.ndarray):
        found = of_array("", given, wanted)
    else:
        paths = [given] if isinstance(given, str | PathLike) else list(given)
        found = [sample for path in paths for sample in of_path(expand_home(Path(path)), wanted)]
    if not found:
        raise DataError("there is nothing to predict: name images, folders of them or an .npz file")
    return found


def of_path(path: Path, wanted: Description) -> Iterator[Sample]:
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if path.suffix.lower() == ".npz":
        yield from of_npz(path, wanted)
        return
    if not wanted.takes_images:
        raise DataError(f"{path}: the model takes {wanted.wanted}, in an .npz file with the array features")
    if not path.is_dir():
        yield of_file(path, wanted)
        return
    found, refused, _ = find_images(path.resolve())
    for name, why in refused:
        warn_left_out(path / name, why)
    if not found:
        raise DataError(f"{path}: there is no image in this folder (png, jpg, dcm)")
    for file in found:
        yield of_file(path / file.relative_to(path.resolve()), wanted)


def of_file(path: Path, wanted: Description) -> Sample:
    def read() -> Tensor | str:
        picture = see(path)
        return picture if isinstance(picture, str) else to_shape(picture, wanted)

    return Sample(str(path), read)


def of_npz(path: Path, wanted: Description) -> list[Sample]:
    there = guarded(medmnist.names, path)
    names = IMAGES if wanted.takes_images else FEATURES
    name = next((name for name in names if name in there), None)
    if name is None:
        raise DataError(f"{path}: the model takes {wanted.wanted}, and the array {names[0]} is missing")
    if not wanted.takes_images:
        return of_array(f"{path}:", read_features(path, name), wanted)
    return of_array(f"{path}:", guarded(lambda file: medmnist.read_arrays(file, (name,)), path)[name], wanted)


def of_array(where: str, array: NDArray[Any], wanted: Description) -> list[Sample]:
    """List the rows of an array, named by their numbers."""
    if not wanted.takes_images:
        if array.ndim != 2 or array.shape[1:] != wanted.input_shape or array.dtype.kind not in "fiu":
            raise DataError(f"{where or 'array:'} {array.dtype} {array.shape}, expected {wanted.wanted}")
        rows = torch.from_numpy(array.astype(np.float32))
        if not rows.isfinite().all():
            row = int((~rows.isfinite()).any(1).int().argmax())
            raise DataError(f"{where or 'array:'} row {row} holds a number that is not finite")
        return [Sample(f"{where}{k}", lambda k=k: rows[k]) for k in range(len(rows))]  # type: ignore[misc]
    if array.dtype != np.uint8 or not (array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)):
        expected = "uint8 (n, height, width) or (n, height, width, 3)"
        raise DataError(f"{where or 'array:'} {array.dtype} {array.shape}, expected {expected}")

    def read(k: int) -> Tensor:
        return to_shape(Image.fromarray(array[k]), wanted)

    return [Sample(f"{where}{k}", lambda k=k: read(k)) for k in range(len(array))]  # type: ignore[misc]


def to_shape(picture: Image.Image | Deep, wanted: Description) -> Tensor:
    """Scale a picture as those were that the model was trained on."""
    channels, height, width = wanted.input_shape
    shape = (channels, height, width) if wanted.margins else (channels, picture.height, picture.width)
    pixels = torch.from_numpy(fit(picture, shape, wanted.window).copy())
    return resize(pixels[None], (height, width))[0]


def warn_left_out(what: object, why: str) -> None:
    warnings.warn(f"{what} is left out: {why}", DataWarning, stacklevel=2)

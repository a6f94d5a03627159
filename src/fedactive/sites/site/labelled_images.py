"""The classes of a site, and its test images with their classes."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fedactive.data.deep import Window
from fedactive.data.pictures import Shape, fit
from fedactive.data.soundness import require_sound_labels
from fedactive.errors import DataError
from fedactive.sites.site.read_images import read_arrays, read_images

log = logging.getLogger(__name__)


def read_classes(path: Path) -> tuple[str, ...]:
    """Read the names of the classes, one per line."""
    try:
        classes = tuple(filter(None, map(str.strip, path.read_text(encoding="utf-8-sig").splitlines())))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8") from None
    if len(classes) < 2 or len(set(classes)) != len(classes):
        raise DataError(f"{path} must name two or more different classes, one per line")
    return classes


def read_test_images(
    source: Path | None, classes: tuple[str, ...], shape: Shape, window: Window | None = None
) -> tuple[Tensor, Tensor]:
    """Read test images with their classes, from a folder per class or from an .npz; none without a source."""
    if source is None:
        return torch.zeros((0, *shape), dtype=torch.uint8), torch.zeros(0, dtype=torch.long)
    if source.is_dir():
        pool = read_images(source, shape, window=window)
        folders = [name.split("/")[0] for name in pool.names]
        if strangers := set(folders) - set(classes):
            raise DataError(f"{source / min(strangers)} is not named after a class")
        for name, kept in pool.report.duplicates:
            if name.split("/")[0] != kept.split("/")[0]:
                raise DataError(f"{source / kept} and {source / name} are the same picture in two classes")
        for sentence in pool.left_out():
            log.warning("among the test images, %s", sentence)
        return torch.from_numpy(pool.pixels), torch.tensor([classes.index(folder) for folder in folders])
    read = read_arrays(source, "test_images", "test_labels")
    require_sound_labels(source, {"test": read["test_images"]}, read, len(classes))
    pixels = np.stack([fit(Image.fromarray(image), shape) for image in read["test_images"]])
    return torch.from_numpy(pixels), torch.from_numpy(read["test_labels"].astype(np.int64))

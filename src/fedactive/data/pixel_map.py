"""Decoded images in one file, which is mapped: it may be larger than memory.

Images are decoded once, in parts, at the size at which they are used. The file grows under another name and
is renamed at the end; what was stopped goes on after the last whole part. Of several processes that want the
same file, one writes it and the others wait.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedactive.data.readers import Array
from fedactive.errors import RunError
from fedactive.files import CACHE, write_json

Numbers = tuple[float, ...]
PART_BYTES = 2**25  # decoded images that are held in memory at a time
PART_IMAGES = 512


def decode_into(
    path: Path,
    count: int,
    shape: tuple[int, ...],
    decode: Callable[[int], Array],
    add: Callable[[int], None],
) -> None:
    """Write the images 0 to count - 1, each of this shape, unless the file is there; `add` counts them."""
    image = math.prod(shape)
    part = max(1, min(PART_IMAGES, PART_BYTES // image))
    partial = path.with_name(f".{path.name}.partial")
    try:
        if is_whole(path, count, shape):
            return add(count)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "ab") as file, on_threads() as pool:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_whole(path, count, shape):  # another process wrote it, and we waited
                return add(count)
            done = min(count, file.tell() // image // part * part)
            file.truncate(done * image)
            add(done)
            for first in range(done, count, part):
                numbers = range(first, min(first + part, count))
                file.write(np.stack(list(pool.map(decode, numbers))).data)
                add(len(numbers))
            file.flush()
            os.fsync(file.fileno())
            os.replace(partial, path)
    except OSError as error:
        raise RunError(
            f"cannot write images to {path.parent}: {error.strerror}; "
            f"set the variable {CACHE} to a folder with room"
        ) from None


def on_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count())


def is_whole(path: Path, count: int, shape: tuple[int, ...]) -> bool:
    return path.is_file() and path.stat().st_size == count * math.prod(shape)


def open_map(path: Path, count: int, shape: tuple[int, ...]) -> Tensor:
    """Map the file as a tensor (count, *shape): pages are read when they are used, and can be dropped."""
    shared = os.access(path, os.W_OK)  # then torch knows the file's name, and workers map it, too
    flat = torch.from_file(str(path), shared=shared, size=count * math.prod(shape), dtype=torch.uint8)
    return flat.view(count, *shape)


def file_of(images: Tensor) -> Path | None:
    """Return the file that holds exactly these images, if they are mapped from one."""
    name = images.untyped_storage().filename
    whole = images.untyped_storage().nbytes() == images.nbytes and images.is_contiguous()
    return Path(name) if name and whole else None


def normalisation_of(path: Path, images: Tensor) -> tuple[Numbers, Numbers]:
    """Return mean and deviation per channel of a map's images, computed once and kept beside it."""
    from fedactive.data.own_images import mean_and_std

    kept = path.with_suffix(".json")
    try:
        found = json.loads(kept.read_bytes())
        return tuple(found["mean"]), tuple(found["std"])
    except (OSError, ValueError, KeyError, TypeError):
        mean, std = mean_and_std(images.numpy())
        write_json(kept, {"mean": mean, "std": std})
        return mean, std

"""The idx format of MNIST and Fashion-MNIST, compressed or not: a magic number, the sizes, then the bytes."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import numpy as np

from fedactive.data.readers import Parts, bad_file

UNSIGNED_BYTES = 8  # the type code of the format for uint8, the only one these datasets use


def read(path: Path) -> Parts:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTES:
        raise bad_file(path, "not an idx file of unsigned bytes")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise bad_file(path, "the header is truncated")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise bad_file(path, f"{math.prod(shape)} values are announced but {len(content) - start} follow")
    array = np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
    split = "train" if path.name.startswith("train") else "test"
    if "images" in path.name:
        return {f"{split}_images": array[:, np.newaxis] if array.ndim == 3 else array}
    return {f"{split}_labels": array}

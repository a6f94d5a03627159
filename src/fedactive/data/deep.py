"""A picture of more than 8 bits, and the window through which it becomes one of 8: level and width.

People choose the window on the page; training has the one that the plan states, or else the picture's own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Window = tuple[float, float]  # level, which is its middle, and width

DEPTHS = (8, 10, 12, 14, 16)  # bits that devices have


@dataclass(frozen=True)
class Deep:
    """A grey picture: its value at a place is low + step * count there, in the units of its window."""

    counts: NDArray[np.uint16]  # (height, width)
    low: float
    step: float
    window: Window  # its own
    inverted: bool = False  # high values are dark
    hounsfield: bool = False  # values are Hounsfield units, of computed tomography

    @property
    def height(self) -> int:
        return int(self.counts.shape[0])

    @property
    def width(self) -> int:
        return int(self.counts.shape[1])

    def digest(self) -> bytes:
        """Return a hash of what the picture shows. That of a 16-bit PNG is as it always was."""
        scale = (
            ""
            if (self.low, self.step, self.inverted) == (0, 1, False)
            else repr((self.low, self.step, self.inverted))
        )
        head = f"I;16 {(self.width, self.height)} {scale}"
        return hashlib.sha256(head.encode() + self.counts.astype("<u2").tobytes()).digest()

    def seen_through(self, window: Window | None = None) -> Image.Image:
        """Return the picture in 8 bits: black below the window, white above it."""
        level, width = window or self.window
        counts = np.arange(int(self.counts.max()) + 1)
        greys = np.floor((self.low + self.step * counts - (level - width / 2)) * 255 / width).clip(0, 255)
        seen = greys.astype(np.uint8)
        return Image.fromarray((255 - seen if self.inverted else seen)[self.counts])


def of_png(image: Image.Image) -> Deep:
    """Make one of a 16-bit PNG. Its own window is the least depth of devices that holds its values."""
    counts = np.asarray(image).astype(np.int64).clip(0, 65535).astype(np.uint16)
    bits = next(bits for bits in DEPTHS if int(counts.max()) < 2**bits)
    most = 2**bits - 1
    return Deep(counts, 0.0, 1.0, (most / 2, float(most)))


def of_values(
    values: NDArray[np.float64], window: Window | None, *, inverted: bool, hounsfield: bool
) -> Deep:
    """Make one of real values, in 65,536 steps if they are no whole numbers or lie too far apart."""
    low, high = float(values.min()), float(values.max())
    whole = high - low <= 65535 and bool((values == np.rint(values)).all())
    step = 1.0 if whole or high == low else (high - low) / 65535
    counts = np.rint((values - low) / step).astype(np.uint16)
    own = window or ((low + high) / 2, max(high - low, step))
    return Deep(counts, low, step, own, inverted, hounsfield)

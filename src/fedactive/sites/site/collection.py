"""The images of a site as they are now, by number: for training, and for the page.

Images may come and go at any time. The folder is looked at when the site starts, when a run chooses images
for a new AL round, and when the page does not find a picture where it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TypeVar

import torch

from fedactive.data import dicom
from fedactive.data.catalog import DatasetCard
from fedactive.data.deep import Deep, Window
from fedactive.data.pictures import Shape
from fedactive.errors import DataError
from fedactive.files import write_json
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.site.folder import CACHE, THUMBNAIL, Site
from fedactive.sites.site.image_files import ENDINGS, PICTURES
from fedactive.sites.site.image_numbers import FILE, ImageNumbers
from fedactive.sites.site.image_pool import GoneError, ImagePool
from fedactive.sites.site.labelled_images import read_test_images
from fedactive.sites.site.read_images import read_images, state_of
from fedactive.sites.site.site_run import Holdings

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 30.0  # for pictures that the page does not find
MOST_LINES = 50  # of the log, about one look

T = TypeVar("T")


@dataclass(frozen=True)
class Sighting:
    """What a look at the images found: a pool, and the number of each of its images."""

    pool: ImagePool
    numbers: tuple[int, ...]
    known: ImageNumbers  # all that there ever were

    @cached_property
    def rows(self) -> dict[int, int]:
        """The position of each image in the pool, by number."""
        return {number: row for row, number in enumerate(self.numbers)}

    def in_order(self) -> list[int]:
        """List the pool's images: those of the first start by number, later ones by what they show.

        So the numbers of a run do not depend on when somebody looked.
        """
        began, digests = self.known.began, self.pool.digests

        def place(row: int) -> tuple[int, str]:
            number = self.numbers[row]
            return (number, "") if number < began else (began, digests[row])

        return sorted(range(len(self.pool)), key=place)

    def departed(self) -> Iterator[str]:
        """Yield a sentence about each image that is no longer there."""
        here, left_out = set(self.pool.names), {name for name, _ in self.pool.report.unreadable}
        for number in sorted(set(range(len(self.known.names))) - self.rows.keys()):
            name = self.known.names[number].encode(errors="backslashreplace").decode() or f"image {number}"
            if self.known.names[number] in here:
                yield f"{name} is another picture than before, and counts as a new image"
            elif self.known.names[number] not in left_out:  # that is said already
                yield f"{name} is gone; its label counts again when it is back"


class Collection:
    def __init__(self, site: Site, store: LabelStore) -> None:
        self.site = site
        self.store = store
        self.lock = Lock()  # one look at a time
        self.looked = 0.0
        self.said: set[str] = set()  # about what takes no part
        self.found = self._read(THUMBNAIL)
        self._tell(len(self.found.known.names))

    # --- for training

    def state(self, card: DatasetCard) -> str:
        """Return a word that changes whenever images come or go, without opening any."""
        return state_of(
            self.site.images, shape_of(card), window=card.window, test=self.site.test, endings=self.endings()
        )

    def read_holdings(self, card: DatasetCard) -> Holdings:
        """Read the images in the form that a run wants."""
        shape = shape_of(card)
        found = self.look(shape, card.window)
        for cache in (self.site.folder / CACHE).glob("[0-9]*x[0-9]*x[0-9]*.npz"):
            if cache not in (self.cache(THUMBNAIL), self.cache(shape)):  # of an earlier run
                cache.unlink()
        test_images, test_labels = read_test_images(self.site.test, self.site.classes, shape, card.window)
        rows, pixels = found.in_order(), torch.from_numpy(found.pool.pixels)
        return Holdings(
            images=pixels if rows == sorted(rows) else pixels[rows],
            test_images=test_images,
            test_labels=test_labels,
            numbers=tuple(found.numbers[row] for row in rows),
            began=found.known.began,
            known=len(found.known.names),
            state=found.pool.state,
        )

    def look(self, shape: Shape = THUMBNAIL, window: Window | None = None) -> Sighting:
        """Read the images as they are now; new ones get a number, and what is gone is named."""
        with self.lock:
            found, before = self._read(shape, window), len(self.names)
            without_pixels = replace(found.pool, pixels=found.pool.pixels[:0].copy())
            self.found = replace(found, pool=without_pixels)  # all that the page needs
            self._tell(before)
            return found

    def _read(self, shape: Shape, window: Window | None = None) -> Sighting:
        pool = read_images(
            self.site.images,
            shape,
            self.cache(shape),
            window=window,
            test=self.site.test,
            endings=self.endings(),
        )
        self.looked = time.monotonic()
        known = ImageNumbers.read(self.site.folder)
        before = known.to_plain()
        known.recall(self.store.images.digests())
        if known.digests and set(known.digests).isdisjoint(pool.digests):
            raise DataError(
                f"none of the {len(known.digests)} images that this site had is in {self.site.images} any "
                "more; is it the right folder? Restore them, or make a new site of the new images"
            )
        numbers = known.add(pool.names, pool.digests)
        if known.to_plain() != before:
            write_json(self.site.folder / FILE, known.to_plain())
        self.store.images.update(known.digests, set(range(len(known.digests))) - set(numbers))
        return Sighting(pool, tuple(numbers), known)

    def _tell(self, before: int) -> None:
        """Log what has changed, since there were so many images; at the start, all that takes no part."""
        if new := len(self.names) - before:
            log.info("%d new %s", new, "image" if new == 1 else "images")
        news = [sentence for sentence in self.left_out() if sentence not in self.said]
        self.said = set(self.left_out())
        for sentence in news[:MOST_LINES]:
            log.warning(sentence)
        if len(news) > MOST_LINES:
            log.warning("and %d more, which the overview page lists", len(news) - MOST_LINES)

    def endings(self) -> tuple[str, ...]:
        """Return how names of images end. A site that has no DICOM and cannot read it passes it over."""
        names = ImageNumbers.read(self.site.folder).names
        without = names and all(name.lower().endswith(PICTURES) for name in names)
        return PICTURES if without and not dicom.can_read() else ENDINGS

    def cache(self, shape: Shape) -> Path:
        return self.site.folder / CACHE / ("x".join(map(str, shape)) + ".npz")

    # --- for the page

    @property
    def names(self) -> Sequence[str]:
        return self.found.known.names

    def __len__(self) -> int:
        return len(self.found.pool)

    def left_out(self) -> list[str]:
        found = self.found
        return [*found.pool.left_out(), *found.departed()]

    def is_deep(self, sample: int) -> bool:
        found = self.found
        return found.pool.is_deep(found.rows.get(sample, -1))

    def values(self, sample: int) -> Deep:
        return self._show(sample, lambda pool, row: pool.values(row))

    def picture(self, sample: int, window: Window | None = None) -> tuple[bytes, str]:
        return self._show(sample, lambda pool, row: pool.picture(row, window))

    def _show(self, sample: int, show: Callable[[ImagePool, int], T]) -> T:
        """Show an image; if it is not where it was, look where it is."""
        try:
            return show(*self._where(sample))
        except GoneError:
            if time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
                raise
            self.look()
            return show(*self._where(sample))

    def _where(self, sample: int) -> tuple[ImagePool, int]:
        found = self.found
        if sample not in found.rows:
            raise GoneError(f"image {sample} is not there")
        return found.pool, found.rows[sample]


def shape_of(card: DatasetCard) -> Shape:
    return card.channels, card.size, card.size

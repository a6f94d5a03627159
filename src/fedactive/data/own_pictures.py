"""A dataset of image files: a folder of classes, or a table of paths and labels.

It is known by its content: names, labels, clients, and the bytes of each file. Images are decoded once, into
a file that is mapped.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch

from fedactive.data.dataset import Dataset
from fedactive.data.file_facts import FileFacts, look_at
from fedactive.data.listing import Listed, list_images
from fedactive.data.own_file import DIGITS, short_name
from fedactive.data.own_images import SIDES
from fedactive.data.pictures import FORMATS, Pixels, fit, see
from fedactive.data.pixel_map import decode_into, normalisation_of, open_map
from fedactive.data.readers import Array, bad_file
from fedactive.data.report import Report, counting
from fedactive.data.resize import resize
from fedactive.data.soundness import form
from fedactive.errors import ConfigurationError, DataError
from fedactive.files import cache_folder

VERSION = 1  # of how images are decoded


class OwnPictures:
    """The image files of a folder or a CSV table."""

    def __init__(self, source: Path, test_share: float) -> None:
        self.source, self.test_share = source, test_share
        self.root = source.parent if source.is_file() else source

    @cached_property
    def listed(self) -> list[Listed]:
        return list_images(self.source)

    @cached_property
    def facts(self) -> list[FileFacts]:
        return look_at(self.source, self.root, [image.name for image in self.listed])

    @cached_property
    def content(self) -> str:
        """Hash what the dataset is, wherever it lies."""
        rows = [[*image, facts.sha256] for image, facts in zip(self.listed, self.facts, strict=True)]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    @property
    def digest(self) -> str:
        return self.content[:DIGITS]

    @cached_property
    def parts(self) -> dict[str, list[int]]:
        """The positions of the images for training and for tests."""
        found: dict[str, list[int]] = {"train": [], "test": []}
        for k, (image, facts) in enumerate(zip(self.listed, self.facts, strict=True)):
            found[image.split or split_of(facts.sha256, self.test_share)].append(k)
        for split, images in found.items():
            if not images:
                raise bad_file(self.source, f"none of its {len(self.listed)} images is for {split}ing")
        return found

    @cached_property
    def classes(self) -> tuple[str, ...]:
        names = {image.label for image in self.listed}
        if len(names) < 2:
            raise bad_file(self.source, f"all images are of class {min(names)}, expected two classes or more")
        present = {self.listed[k].label for k in self.parts["train"]}
        for name in sorted(names - present):
            raise bad_file(self.source, f"class {name} has no image for training; every class needs some")
        numbers = all(name.isdecimal() for name in names)
        return tuple(sorted(names, key=lambda name: (int(name), name) if numbers else (0, name)))

    @cached_property
    def clients(self) -> tuple[tuple[str, ...], Array] | None:
        """Say who has each training image: the clients' names, and for each image its client's number."""
        if not any(image.client for image in self.listed):
            return None
        held = [self.listed[k].client for k in self.parts["train"]]
        for name in sorted({image.client for image in self.listed} - {*held, ""}):
            raise bad_file(self.source, f"client {name} has no image for training; every client needs some")
        names, numbers = np.unique(held, return_inverse=True)
        return tuple(map(str, names)), numbers

    def shape(self, size: int) -> tuple[int, int, int]:
        """Return the shape of the images once they are decoded: squares of that side, or as they are."""
        channels = 1 if all(facts.grey for facts in self.facts) else 3
        if size:
            return channels, size, size
        sizes = Counter((facts.height, facts.width) for facts in self.facts)
        (common, _), *others = sizes.most_common(2)
        if others:
            two = " and ".join(form((1, *sides))[:-2] for sides in (common, others[0][0]))
            have = f"images of {self.source} have {len(sizes)} sizes, as {two}"
            allowed = f"the side of squares, as 64, or a backbone: {have}"
            raise ConfigurationError("image_size", size, allowed)
        if not all(side in SIDES for side in common):
            allowed = f"the side of squares, as 64: images of {self.source} are {form((1, *common))[:-2]}"
            raise ConfigurationError("image_size", size, allowed)
        return channels, *common

    def describe(self) -> str:
        """Say what there is, without decoding it."""
        counts = {split: len(images) for split, images in self.parts.items()}
        sizes = {(facts.height, facts.width) for facts in self.facts}
        some = f"of {form((1, *min(sizes)))[:-2]}" if len(sizes) == 1 else f"of {len(sizes)} sizes"
        colours = "grey" if all(facts.grey for facts in self.facts) else "colour"
        found = f"{counts['train']} training and {counts['test']} test images {some} in {colours}"
        found += f", {len(self.classes)} classes"
        return found if self.clients is None else f"{found}, {len(self.clients[0])} clients"

    def load(self, size: int, report: Report) -> Dataset:
        classes, clients, shape = self.classes, self.clients, self.shape(size)
        what = [VERSION, self.content, self.test_share, shape]
        folder = cache_folder("images") / hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]
        maps, labels, count = {}, {}, counting(len(self.listed), report)
        for split, positions in self.parts.items():
            names = [self.listed[k].name for k in positions]
            path = folder / f"{split}.pixels"
            decode_into(path, len(names), shape, partial(self.decode, names, shape), count)
            maps[split] = open_map(path, len(names), shape)
            labels[split] = torch.tensor([classes.index(self.listed[k].label) for k in positions])
        mean, std = normalisation_of(folder / "train.pixels", maps["train"])
        return Dataset(
            name=short_name(str(self.source)),
            train_inputs=maps["train"],
            train_labels=labels["train"],
            test_inputs=maps["test"],
            test_labels=labels["test"],
            classes=classes,
            mean=mean,
            std=std,
            train_clients=None if clients is None else torch.from_numpy(clients[1]),
            origin=self.content,
        )

    def decode(self, names: Sequence[str], shape: tuple[int, int, int], k: int) -> Pixels:
        """Decode a file as `predict` does: upright, on black where it is transparent, then resized."""
        name = names[k]
        picture = see(self.root / name, FORMATS)
        if isinstance(picture, str):
            raise DataError(f"{self.source}: cannot use {name} ({picture}); repair the file or take it away")
        pixels = torch.from_numpy(fit(picture, (shape[0], picture.height, picture.width)).copy())
        return resize(pixels[None], shape[1:])[0].numpy()


def split_of(sha256: str, test_share: float) -> str:
    """Deal an image by its content, so that equal images are never on both sides, whatever their names."""
    return "test" if int(sha256[:15], 16) < test_share * 16**15 else "train"

"""A dataset of the user's own in an .npz file: images or features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from fedactive.data.dataset import Dataset
from fedactive.data.own_features import has_features, load_features
from fedactive.data.own_file import short_digest
from fedactive.data.own_images import class_names, load_images
from fedactive.data.partition.given import read_clients
from fedactive.data.readers import Array
from fedactive.data.report import Report


class OwnNpz:
    """An .npz file in MedMNIST's layout."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def digest(self) -> str:
        return short_digest(self.path)

    @property
    def classes(self) -> tuple[str, ...]:
        return class_names(self.path)

    @property
    def clients(self) -> tuple[tuple[str, ...], Array] | None:
        return read_clients(self.path)

    def load(self, size: int, report: Report) -> Dataset:
        data = load_features(self.path) if has_features(self.path) else load_images(self.path)
        clients = self.clients
        return data if clients is None else replace(data, train_clients=torch.from_numpy(clients[1]))

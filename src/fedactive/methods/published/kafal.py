"""KAFAL (Cao et al., ICCV 2023): knowledge-aware queries, and training that makes up for rare classes."""

from __future__ import annotations

from typing import final

from fedactive.methods import register


@final
@register
class KAFAL:
    name = "kafal"
    summary = (
        "samples on which the client's model and the global one disagree; clients distil from the global"
    )
    paper = "Cao et al., ICCV 2023"
    settings = {"strategy": "ksas", "objective": "kcfu"}

"""KAFAL (Cao et al., ICCV 2023): knowledge-aware queries, and training that makes up for rare classes."""

from __future__ import annotations

from typing import ClassVar, final

from fedactive.methods import register


@final
@register
class KAFALAsPublished:
    name = "kafal"
    summary = "samples on which global and local model disagree; clients learn from the global one"
    paper = "Cao et al., ICCV 2023"
    settings: ClassVar = {"strategy": "ksas", "objective": "kcfu"}

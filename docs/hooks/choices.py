"""The reference of what can be chosen by name: strategies, algorithms and the like, with their options."""

from __future__ import annotations

from fedactive.data.catalog import DATASETS
from fedactive.options import options_of
from fedactive.registry import (
    ALGORITHMS,
    AUGMENTATIONS,
    BACKBONES,
    MODELS,
    OBJECTIVES,
    STRATEGIES,
    TRACKERS,
    Registry,
)
from tables import code, table

KINDS: list[tuple[Registry, str, str]] = [
    (STRATEGIES, "strategy", "What a client labels next. [Add one](../STRATEGIES.md)."),
    (ALGORITHMS, "algorithm", "How updates become the next global model. [Add one](../ALGORITHMS.md)."),
    (OBJECTIVES, "objective", "What clients train with. [Add one](../OBJECTIVES.md)."),
    (MODELS, "model", "What clients train. [Add one](../MODELS.md)."),
    (BACKBONES, "backbone", "What turns images into features. [Add one](../BACKBONES.md)."),
    (AUGMENTATIONS, "augment", "How images vary. [Add one](../DATASETS.md#vary-the-training-images)."),
    (TRACKERS, "track", "Who else is told every metric. [How](../USAGE.md#follow-a-run)."),
]


def choices_page() -> str:
    """Write a section for each kind."""
    parts = []
    for registry, setting, what in KINDS:
        heading = registry.group.partition(".")[2].capitalize()
        parts += [f"\n## {heading}\n", f"`--{setting} NAME`. {what}\n", named(registry), options(registry)]
    rows = [(code(card.name), card.description, card.licence, card.unsupported) for card in DATASETS.values()]
    parts += ["\n## Datasets\n", "`--dataset NAME`. [Your own](../DATASETS.md).\n"]
    parts.append(table(("name", "what it is", "licence", ""), rows))
    return "\n".join(parts)


def named(registry: Registry) -> str:
    classes = [registry[name] for name in registry.ours]
    rows = [(code(cls.name), cls.summary, getattr(cls, "paper", "-")) for cls in classes]
    return table(("name", "what it is", "published"), rows)


def options(registry: Registry) -> str:
    """Write a table of the options of all that have any."""
    rows = [
        (code(name), code(f"{item.name}={item.default}"), item.help, item.allowed)
        for name in registry.ours
        for item in options_of(registry[name])
    ]
    return table(("name", "option and default", "what it is", "allowed"), rows)

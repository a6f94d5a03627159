"""Fill in the settings that depend on others, and refuse those that do not fit together.

An experiment does this when it is made, so that a wrong one fails before any work.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fedactive.backbones.find import content, find_backbone
from fedactive.data.catalog import DATASETS, DatasetCard
from fedactive.data.own_file import (
    NPZ,
    find_file,
    find_places,
    has_path,
    is_own_file,
    short_digest,
)
from fedactive.errors import ConfigurationError, unknown_name
from fedactive.options import write_pairs
from fedactive.registry import (
    ALGORITHMS,
    AUGMENTATIONS,
    BACKBONES,
    MODELS,
    OBJECTIVES,
    STRATEGIES,
    TRACKERS,
    Registry,
    split_names,
)

if TYPE_CHECKING:
    from fedactive.data.own_data import OwnData
    from fedactive.experiment import Experiment

ROUNDS_BY_COUNT = 5  # AL rounds with a budget in labels, by default


def settle_given(e: Experiment) -> None:
    """Let a `Dataset` that was made in Python stand as its name and content."""
    for field, value in getattr(e.dataset, "settings", {}).items():
        put(e, field, value)


def settle(e: Experiment) -> None:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", e.device):
        raise ConfigurationError("device", e.device, "auto, cpu, cuda, or one GPU as in cuda:1")
    if e.track:
        TRACKERS[e.track]  # or it says which there are
    settle_dataset(e)
    settle_clients(e)
    settle_augmentation(e)
    settle_backbone(e)
    settle_strategy(e)
    for registry in (ALGORITHMS, OBJECTIVES, MODELS):
        settle_options(e, registry)
    OBJECTIVES.make(e.objective, e.objective_options)  # a plugin's may be refused
    settle_algorithm(e)
    settle_weights(e)
    settle_rounds(e)


def put(e: Experiment, field: str, value: Any) -> None:
    object.__setattr__(e, field, value)  # the class is frozen for everyone else


def settle_dataset(e: Experiment) -> None:
    if e.described is not None and e.dataset != e.described.name:
        raise ConfigurationError("dataset", e.dataset, f"{e.described.name}, as in `described`")
    if e.card is None and is_own_file(e.dataset):
        if e.dataset.lower().endswith(NPZ):
            put(e, "dataset_sha256", short_digest(find_file(e.dataset, e.data_dir, e.dataset_sha256)))
        elif e.dataset_sha256 and has_path(e.dataset):  # `load` compares: hashing many files takes a while
            find_places(e.dataset, e.data_dir, e.dataset_sha256)
        else:
            put(e, "dataset_sha256", find_own_data(e).digest)
    elif e.card is None:
        others = ", or the path of a folder of images, a CSV or .npz file"
        raise unknown_name("dataset", e.dataset, DATASETS, others)
    elif e.dataset_sha256:
        raise ConfigurationError("dataset_sha256", e.dataset_sha256, f"none: {e.dataset} is not a file")


def find_own_data(e: Experiment) -> OwnData:
    from fedactive.data.own_data import find_own  # needs PyTorch, which --help does without

    return find_own(e.dataset, e.data_dir, e.dataset_sha256, e.test_share)


def settle_clients(e: Experiment) -> None:
    if e.partition != "given":
        return
    found = find_own_data(e).clients if e.card is None else None
    if found is None:
        allowed = f"transport or reference: {e.dataset} does not say who has which sample"
        raise ConfigurationError("partition", e.partition, allowed)
    if e.clients not in (type(e).clients, len(found[0])):
        raise ConfigurationError("clients", e.clients, f"{len(found[0])}, as {e.dataset} says")
    for field in ("alpha", "rho"):
        if getattr(e, field) != getattr(type(e), field):
            default = f"{getattr(type(e), field):g}, the default: partition given deals nothing"
            raise ConfigurationError(field, getattr(e, field), default)
    put(e, "clients", len(found[0]))


def settle_augmentation(e: Experiment) -> None:
    names = split_names(e.augment)
    for name in names:
        if name not in AUGMENTATIONS:
            raise unknown_name("augment", name, [*AUGMENTATIONS, "none"], ", or several as in flip+crop")
    if len(set(names)) != len(names):
        raise ConfigurationError("augment", e.augment, "each only once")
    put(e, "augment", "+".join(names) or "none")


def settle_backbone(e: Experiment) -> None:
    if not e.backbone:
        for field in ("backbone_options", "backbone_sha256"):
            if given := getattr(e, field):
                raise ConfigurationError(field, given, "none without a backbone")
        return
    backbone, pairs = find_backbone(e.backbone, e.backbone_options), e.backbone_options
    put(e, "backbone_options", write_pairs(BACKBONES.options(backbone.name, pairs)))
    put(e, "image_size", e.image_size or backbone.size)
    backbone.check(e.image_size)
    found = content(backbone)
    if e.backbone_sha256 not in ("", found):
        raise ConfigurationError("backbone_sha256", e.backbone_sha256, f"{found}, as {e.backbone} has it")
    put(e, "backbone_sha256", found)
    if e.model == type(e).model:
        put(e, "model", "linear")
    if 1 not in getattr(MODELS[e.model], "dimensions", ()):
        raise ConfigurationError("model", e.model, "a model for features with a backbone, as linear")


def settle_weights(e: Experiment) -> None:
    if e.weights == "pretrained":
        published = getattr(MODELS[e.model], "published", None)
        if published is None:
            raise ConfigurationError("weights", e.weights, f"random with model {e.model}")
        published.path()  # or it says what is missing


def settle_strategy(e: Experiment) -> None:
    allowed = STRATEGIES[e.strategy].selectors
    if e.selector == "auto":
        put(e, "selector", allowed[0])
    elif e.selector not in allowed:
        raise ConfigurationError("selector", e.selector, f"{' or '.join(allowed)} with strategy {e.strategy}")
    settle_options(e, STRATEGIES)
    STRATEGIES.make(e.strategy, e.strategy_options, selector=e.selector)  # a plugin's may refuse
    if STRATEGIES[e.first].needs_model:
        able = ", ".join(name for name, strategy in STRATEGIES.items() if not strategy.needs_model)
        raise ConfigurationError("first", e.first, f"a strategy that needs no model: {able}")


def settle_options(e: Experiment, registry: Registry) -> None:
    """Write the options in one canonical way, so that equal options give the same run."""
    name, field = getattr(e, registry.kind), f"{registry.kind}_options"
    put(e, field, write_pairs(registry.options(name, getattr(e, field))))


def settle_algorithm(e: Experiment) -> None:
    algorithm = ALGORITHMS[e.algorithm]
    if algorithm.models and e.model not in algorithm.models:
        allowed = f"{' or '.join(algorithm.models)} with algorithm {e.algorithm}"
        raise ConfigurationError("model", e.model, allowed)
    if algorithm.objectives and e.objective not in algorithm.objectives:
        allowed = f"{' or '.join(algorithm.objectives)} with algorithm {e.algorithm}"
        raise ConfigurationError("objective", e.objective, allowed)
    strategy = STRATEGIES.make(e.strategy, e.strategy_options, selector=e.selector)
    if strategy.remembers and not algorithm.steps:
        allowed = f"one that asks for no model of local training with algorithm {e.algorithm}"
        raise ConfigurationError("strategy", e.strategy, allowed)
    if algorithm.fl_rounds is not None:
        put(e, "fl_rounds", algorithm.fl_rounds)


def settle_rounds(e: Experiment) -> None:
    if isinstance(e.budget, str):  # how far it goes depends on the samples
        put(e, "rounds", e.rounds or ROUNDS_BY_COUNT)
        return
    if e.rounds == 0:
        until = e.card.label_until if e.card else DatasetCard.label_until
        put(e, "rounds", max(1, round(until / e.budget)))
    most = int(100 / e.budget) + 1  # one more for what rounding leaves
    if e.rounds > most:
        at_most = f"at most {most} with a budget of {e.budget:g}%"
        raise ConfigurationError("rounds", e.rounds, at_most)

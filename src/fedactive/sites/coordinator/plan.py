"""What the coordinator's TOML file says: the experiment, the images it is about, and the rules between sites.

The experiment is the laboratory's own. A table [images] describes images that are not in the catalogue; a
table [field] says when a round of labelling ends and what the coordinator puts up with.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedactive.data import DATASETS
from fedactive.data.catalog import DatasetCard
from fedactive.errors import ConfigurationError, unknown_name
from fedactive.experiment import Experiment, parse_toml
from fedactive.federated.algorithm import make_algorithm, sends_more_than_weights
from fedactive.options import check_all, option, options_of, parse

LABELLING, TRAINING, PRIVACY = "Labelling", "Training between sites", "Privacy"
CATALOGUE = frozenset(DATASETS)
NORMALISATION = 0.5  # mean and standard deviation of pixels about which nothing is known


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The table [field]."""

    quorum: float = option(
        1.0,
        "an AL round ends when this share of the sites has answered all",
        panel=LABELLING,
        low=0.01,
        high=1,
    )
    deadline: float = option(
        0.0, "hours after which an AL round ends anyway; 0 waits for the quorum", panel=LABELLING, low=0
    )
    overlap: int = option(1, "people who label each image", panel=LABELLING, low=1)
    patience: float = option(
        60.0,
        "minutes after which a site that does not answer is left out of the step",
        panel=TRAINING,
        low=0.05,
    )
    minimum_sites: int = option(
        1, "sites whose updates an FL round needs, or waits for", panel=TRAINING, low=1
    )
    evaluate_every: int = option(
        1,
        "FL rounds from one evaluation to the next; the last of an AL round is always evaluated",
        panel=TRAINING,
        low=1,
    )
    largest_step: float = option(
        10.0,
        "an update that moves the weights further than this times their own norm is dropped",
        panel=TRAINING,
        low=0.001,
    )
    clip: float = option(0.0, "norm to which sites clip their updates; 0 leaves them", panel=PRIVACY, low=0)
    noise: float = option(
        0.0, "standard deviation of the noise that sites add to an update, times clip", panel=PRIVACY, low=0
    )

    def __post_init__(self) -> None:
        check_all(self)


@dataclass(frozen=True)
class Plan:
    experiment: Experiment
    images: DatasetCard
    rules: Rules

    @classmethod
    def from_toml(cls, text: str, **overrides: Any) -> Plan:
        values = parse_toml(text)
        tables = {name: values.pop(name, {}) for name in ("field", "images")}
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise ConfigurationError(name, table, f"a table: [{name}] and lines below it")
        rules = Rules(**parse(options_of(Rules), tables["field"]))
        if tables["images"]:
            name = str(values.get("dataset", ""))
            if not name or name in CATALOGUE:
                raise ConfigurationError("dataset", name, "a name of its own when there is a table [images]")
            register_images(describe_images(name, tables["images"]))
        if rules.noise and not rules.clip:
            raise ConfigurationError("noise", rules.noise, "0 without clip, by which it is measured")
        experiment = Experiment.from_values(values | overrides)
        algorithm = make_algorithm(experiment.algorithm, experiment.algorithm_options)
        if rules.clip and sends_more_than_weights(algorithm):
            allowed = f"0 with {algorithm.name}: what it sends beside the weights stays uncovered"
            raise ConfigurationError("clip", rules.clip, allowed)
        if experiment.dataset not in DATASETS:
            allowed = "a name, between sites; a table [images] describes images of your own"
            raise ConfigurationError("dataset", experiment.dataset, allowed)
        return cls(experiment, DATASETS[experiment.dataset], rules)


def describe_images(name: str, table: Mapping[str, Any]) -> DatasetCard:
    """The card of images that are not in the catalogue, from the table [images]."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):  # it begins the names of folders
        raise ConfigurationError("dataset", name, "1 to 60 letters (a to z), digits, - and _")
    known = ("classes", "size", "channels", "mean", "std")
    for key in table:
        if key not in known:
            raise unknown_name("images", key, known)
    classes, size, channels = table.get("classes"), table.get("size"), table.get("channels", 1)
    if not isinstance(classes, list) or len(set(map(str, classes))) != len(classes) or len(classes) < 2:
        raise ConfigurationError("images.classes", classes, "a list of two or more different names")
    if type(size) is not int or not 4 <= size <= 1024:
        raise ConfigurationError("images.size", size, "a whole number of pixels from 4 to 1024")
    if channels not in (1, 3):
        raise ConfigurationError("images.channels", channels, "1 (grey) or 3 (colour)")
    numbers = {key: table.get(key, [NORMALISATION] * channels) for key in ("mean", "std")}
    for key, value in numbers.items():
        right = isinstance(value, list) and len(value) == channels and all(map(_is_number, value))
        if not right or (key == "std" and min(value) <= 0):
            raise ConfigurationError(f"images.{key}", value, "a list with one number per channel")
    return DatasetCard(
        name=name,
        description="images held by sites",
        classes=tuple(map(str, classes)),
        channels=channels,
        size=size,
        mean=tuple(map(float, numbers["mean"])),
        std=tuple(map(float, numbers["std"])),
        licence="",
    )


def register_images(card: DatasetCard) -> None:
    """Make the name of these images one that an experiment may have."""
    if card.name not in CATALOGUE:
        DATASETS[card.name] = card


def card_to_plain(card: DatasetCard) -> dict[str, Any]:
    """What a site has to know of the images: their form and the classes."""
    kept = ("name", "classes", "channels", "size", "mean", "std")
    return {name: value for name, value in dataclasses.asdict(card).items() if name in kept}


def card_from_plain(plain: Mapping[str, Any]) -> DatasetCard:
    """The card as the site got it, checked like one that a person wrote."""
    table = {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}
    return describe_images(str(table.pop("name")), table)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

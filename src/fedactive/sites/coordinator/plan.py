"""What the coordinator's TOML file says: the experiment, the images it is about, and the rules between sites.

The experiment is the laboratory's own. A table [images] describes images that are not in the catalogue; a
table [field] says when a round of labelling ends and what the coordinator puts up with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedactive.backbones.embedding import count_features
from fedactive.backbones.find import find_backbone, is_file
from fedactive.data.catalog import DATASETS, DatasetCard
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment, parse_toml
from fedactive.federated.algorithm import make_algorithm, sends_more_than_weights
from fedactive.models import ModelSpec
from fedactive.options import check_all, option, options_of, parse, write_toml
from fedactive.pools import require_dropout
from fedactive.query import make_strategy
from fedactive.registry import STRATEGIES
from fedactive.sites.card import read_card

LABELLING, TRAINING, PRIVACY = "Labelling", "Training between sites", "Privacy"


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
    collapse: float = option(
        0.3,
        "accuracy lost since the best FL round at which a run goes back to that model; 1: never",
        panel=TRAINING,
        low=0.01,
        high=1,
    )
    clip: float = option(0.0, "norm to which sites clip their updates; 0 leaves them", panel=PRIVACY, low=0)
    noise: float = option(
        0.0, "standard deviation of the noise that sites add to an update, times clip", panel=PRIVACY, low=0
    )

    def __post_init__(self) -> None:
        check_all(self)


@dataclass(frozen=True)
class FieldPlan:
    experiment: Experiment
    rules: Rules

    def __post_init__(self) -> None:
        e, rules = self.experiment, self.rules
        if e.card is None:
            allowed = "a name, between sites; a table [images] describes images of your own"
            raise ConfigurationError("dataset", e.dataset, allowed)
        if e.weights != Experiment.weights:
            raise ConfigurationError("weights", e.weights, f"{Experiment.weights!r} between sites")
        for field in ("strategy", "first"):
            if STRATEGIES[getattr(e, field)].coordinated:
                allowed = "a strategy with which each site chooses by itself, between sites"
                raise ConfigurationError(field, getattr(e, field), allowed)
        strategy = make_strategy(e.strategy, e.selector, e.strategy_options)
        if "dropout" in strategy.needs:  # else `spec` would load a backbone for nothing
            require_dropout(strategy, self.spec)
        if rules.noise and not rules.clip:
            raise ConfigurationError("noise", rules.noise, "0 without clip, by which it is measured")
        algorithm = make_algorithm(e.algorithm, e.algorithm_options)
        if rules.clip and sends_more_than_weights(algorithm):
            allowed = f"0 with {algorithm.name}: what it sends beside the weights stays uncovered"
            raise ConfigurationError("clip", rules.clip, allowed)

    @property
    def images(self) -> DatasetCard:
        """Return the card of the images that the run is about: their form and their classes."""
        assert self.experiment.card is not None  # or this would not be a plan
        return self.experiment.card

    @property
    def spec(self) -> ModelSpec:
        """What the model is and what it sees: images, or their features."""
        e, images = self.experiment, self.images
        shape: tuple[int, ...] = (images.channels, images.size, images.size)
        if e.backbone:
            shape = (count_features(find_backbone(e.backbone, e.backbone_options), e.image_size),)
        return ModelSpec(e.model, shape, len(images.classes), e.model_options)

    @property
    def for_sites(self) -> str:
        """The experiment as sites are told of it: they have their own path to a backbone's file."""
        e = self.experiment
        name = Path(e.backbone).name if is_file(e.backbone) else e.backbone
        return write_toml(options_of(Experiment), vars(e) | {"backbone": name})

    @classmethod
    def from_toml(cls, text: str, *, backbones: Path = Path(), **overrides: Any) -> FieldPlan:
        """Read a plan; `overrides` win over what it says of the experiment.

        `backbones` is the folder with files of backbones, which the plan calls by their names.
        """
        values = parse_toml(text)
        for field in ("backbone", "backbone_options", "image_size"):
            if field in values:
                allowed = "none between sites but in the table [images], with backbone and size"
                raise ConfigurationError(field, values[field], allowed)
        tables = {name: values.pop(name, {}) for name in ("field", "images")}
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise ConfigurationError(name, table, f"a table: [{name}] and lines below it")
        described = None
        if tables["images"]:
            name = str(values.get("dataset", ""))
            if not name or name in DATASETS:
                raise ConfigurationError("dataset", name, "a name of its own when there is a table [images]")
            values |= take_backbone(tables["images"], backbones)
            described = read_card(name, tables["images"])
        rules = Rules(**parse(options_of(Rules), tables["field"]))
        return cls(Experiment.from_values(values | overrides, described), rules)


def take_backbone(images: dict[str, Any], backbones: Path) -> dict[str, Any]:
    """Take the backbone out of the table [images]; return what the experiment is told of it.

    The images get the size that the backbone wants, and are coloured, unless the table says otherwise.
    """
    name, options = images.pop("backbone", ""), images.pop("backbone_options", "")
    if not isinstance(name, str) or not isinstance(options, str):
        raise ConfigurationError("images.backbone", name, "a name, with its options as text")
    if not name:
        return {"backbone_options": options} if options else {}
    for key in ("mean", "std"):
        if key in images:
            raise ConfigurationError(f"images.{key}", images[key], "none with a backbone, which has its own")
    if is_file(name):
        file = backbones / name
        if Path(name).name != name or not file.is_file():
            allowed = f"a backbone of fedactive, or the name of a file that you have put into {backbones}"
            raise ConfigurationError("images.backbone", name, allowed)
        name = str(file)
    images.setdefault("channels", 3)
    images.setdefault("size", find_backbone(name, options).size)
    return {"backbone": name, "backbone_options": options, "image_size": images["size"]}

"""One experiment: a frozen, documented configuration. Its defaults are the paper's.

Each field is defined once, with its help text and what it allows; the command line's flags, the TOML file and
the checks all come from here. The hash of the fields that decide the result names the run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedactive.backbones.find import short_name as short_backbone
from fedactive.data.budget import PER_CLIENT
from fedactive.data.catalog import DATASETS, DatasetCard
from fedactive.data.own_file import TEST_SHARE, short_name
from fedactive.errors import ConfigurationError
from fedactive.files import load_toml
from fedactive.methods import merge, with_method
from fedactive.options import check_all, option, options_of, parse, write_pairs, write_toml
from fedactive.registry import ALGORITHMS, MODELS, OBJECTIVES, STRATEGIES
from fedactive.settling import settle, settle_given

# Constructors of options, by the heading under which --help and the TOML file show them.
data = partial(option, panel="Data")
query = partial(option, panel="Active learning")
learning = partial(option, panel="Federated learning")
machine = partial(option, panel="Machine", identity=False)

LAST_FL_ROUNDS = 5  # the accuracy of an AL round is the mean over its last five FL rounds


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A federated active learning experiment. Values that depend on others are filled in when it is made."""

    dataset: str = data(
        "cifar10",
        "dataset (see `fedactive datasets`), or the path of your own: a folder of images, a CSV or .npz file",
    )
    dataset_sha256: str = data(
        "", "first 12 digits of the SHA-256 of a dataset of your own; computed if not given, checked if given"
    )
    test_share: float = data(
        TEST_SHARE,
        "share of test images, chosen by content, where a folder or a table does not say which they are",
        low=0.01,
        high=0.99,
    )
    clients: int = data(10, "number of clients K", low=1)
    alpha: float = data(
        0.1, "Dirichlet concentration; the smaller, the more the clients differ; inf is IID", low=0.01
    )
    rho: float = data(
        1.0, "global imbalance: largest over smallest class, long-tailed; 1 keeps all", low=1, high=1e4
    )
    partition: str = data(
        "transport",
        "how samples are dealt to clients: exact integer transport, the released code's procedure, or as the "
        "data say",
        choices=("transport", "reference", "given"),
    )
    augment: str = data(
        "flip", "training augmentation (see `fedactive augmentations`), several as in flip+crop, or none"
    )
    image_size: int = data(
        0,
        "side of the squares to which images are resized; 0 leaves them, or is what the backbone wants",
        low=0,
        high=1024,
    )
    backbone: str = data(
        "",
        "clients see features by this network (see `fedactive backbones`), or by an ONNX or TorchScript file",
    )
    backbone_options: str = data(
        "", "parameters of the backbone as name=value,... (see `fedactive backbones`)"
    )
    backbone_sha256: str = data(
        "", "first 12 digits of the SHA-256 of the backbone's file; computed if not given, checked if given"
    )

    strategy: str = query("logo", "query strategy (see `fedactive strategies`)", choices=STRATEGIES)
    selector: str = query(
        "auto",
        "whose model chooses; auto is the strategy's default",
        choices=("auto", "global", "local", "both", "none"),
    )
    strategy_options: str = query(
        "", "parameters of the strategy as name=value,... (see `fedactive strategies`)"
    )
    budget: float | str = query(
        5.0,
        "labels per AL round: percent of all training samples, shared equally, or a number for each client; "
        "5+5+10/client is 5, 5, then 10 in all further rounds",
        low=0.01,
        high=100,
        unit=PER_CLIENT,
    )
    scored_images: str = query(
        "own",
        "what strategies see of the pool: its own images, or for each of them another one of its class "
        "(other_of_class), as in the released code's long tails",
        choices=("own", "other_of_class"),
    )
    first: str = query("random", "who chooses in AL round 1, before there is a model", choices=STRATEGIES)
    rounds: int = query(
        0,
        "AL rounds; a larger number extends a run. 0 means: until the paper's share is labelled (80% of "
        "cifar10, 60% of others), or with a budget in labels as many rounds as it has numbers, 5 for one",
        low=0,
        identity=False,
    )
    seed: int = query(1, "seed of all randomness", low=0, high=2**63 - 1)

    model: str = learning(
        "cnn4",
        "architecture (see `fedactive models`); with a backbone linear instead of cnn4",
        choices=MODELS,
    )
    model_options: str = learning("", "parameters of the model as name=value,... (see `fedactive models`)")
    weights: str = learning(
        "random",
        "weights of a fresh model: drawn by the seed, or published ones with a fresh last layer, for which "
        "an lr of 0.003 is better",
        choices=("random", "pretrained"),
    )
    algorithm: str = learning(
        "fedavg", "federated algorithm (see `fedactive algorithms`)", choices=ALGORITHMS
    )
    algorithm_options: str = learning(
        "", "parameters of the algorithm as name=value,... (see `fedactive algorithms`)"
    )
    objective: str = learning(
        "cross_entropy", "what clients train with (see `fedactive objectives`)", choices=OBJECTIVES
    )
    objective_options: str = learning(
        "", "parameters of the objective as name=value,... (see `fedactive objectives`)"
    )
    init: str = learning(
        "random",
        "global model at the start of an AL round: fresh weights, or the last round's",
        choices=("random", "continue"),
    )
    fl_rounds: int = learning(100, "FL rounds per AL round", low=1)
    local_epochs: int = learning(5, "epochs per client and FL round", low=1)
    participation: float = learning(1.0, "share of the clients in each FL round", low=0.001, high=1)
    batch_size: int = learning(64, "samples per SGD step", low=1)
    lr: float = learning(0.01, "initial learning rate", low=1e-8, high=100)
    momentum: float = learning(0.9, "SGD momentum", low=0, high=0.999)
    weight_decay: float = learning(1e-5, "SGD weight decay", low=0, high=1)
    schedule: str = learning(
        "paper",
        "learning-rate decay: x0.1 at one half and three quarters, or as in the released code",
        choices=("paper", "reference"),
    )
    local_only_epochs: int = learning(50, "epochs of local-only training, at most", low=1)
    local_only_stop: float = learning(
        0.99, "local-only training ends at this training accuracy", low=0, high=1
    )
    precision: str = learning(
        "tf32", "arithmetic; on a CPU tf32 is the same as fp32", choices=("fp32", "tf32", "bf16")
    )

    evaluate_every: int = machine(
        1,
        "FL rounds from one evaluation to the next; the last five of an AL round, which count, always are",
        low=1,
    )
    device: str = machine("auto", "where to train: auto, cpu, cuda, or cuda:N for one of several GPUs")
    workers: int = machine(0, "worker processes on a CPU; 0 is one per core", low=0)
    federation: str = machine(
        "simulation",
        "where the clients are: in this process, or on Flower's simulation engine, which may be a cluster",
        choices=("simulation", "flower-simulation"),
    )
    track: str = machine("", "who else is told every metric: tensorboard, wandb, mlflow, or your own tracker")
    data_dir: Path = machine(Path("data"), "folder of the datasets")  # noqa: RUF009 - makes a field
    runs_dir: Path = machine(Path("runs"), "folder in which run folders are made")  # noqa: RUF009

    # Not an option: the card of images that are in no catalogue; a plan between sites brings it.
    described: DatasetCard | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        settle_given(self)
        check_all(self)
        settle(self)

    @property
    def percent(self) -> float:
        """The budget in percent; ConfigurationError if it is in labels of each client."""
        if isinstance(self.budget, str):
            raise ConfigurationError("budget", self.budget, "a number of percent here")
        return self.budget

    @property
    def card(self) -> DatasetCard | None:
        """What is known of the dataset before it is read; None for an .npz file."""
        return self.described or DATASETS.get(self.dataset)

    @property
    def inputs(self) -> tuple[object, ...]:
        """What decides the samples that clients see, and where they are read from."""
        return (*self.source, self.backbone, self.backbone_options, self.backbone_sha256, self.weights)

    @property
    def source(self) -> tuple[str, Path, str, int, float]:
        """What `load` takes to read the dataset."""
        return (self.dataset, self.data_dir, self.dataset_sha256, self.image_size, self.test_share)

    @property
    def name(self) -> str:
        """The run folder's name: readable, then the hash that makes it unique."""
        return f"{short_name(self.dataset)}-{self.strategy}-{self.selector}-s{self.seed}-{self.hash}"

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.runs_dir / self.name

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits: a hash of the fields that decide the result, not of where it is computed.

        Defaults do not count, so a setting added later leaves the names of older runs as they are. A file of
        the user's own, of data or a backbone, counts by its name and content, not by its folder. An
        algorithm's options count by their own names: FedProx's mu was once a setting of Experiment, and its
        runs keep their names.
        """
        names = {"dataset": short_name(self.dataset), "backbone": short_backbone(self.backbone)}
        values = vars(self) | names | {"algorithm_options": ""}
        identity = {
            item.name: values[item.name]
            for item in options_of(Experiment)
            if item.identity and values[item.name] != item.default
        }
        identity |= ALGORITHMS.options(self.algorithm, self.algorithm_options)
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]

    def evaluates(self, fl_round: int) -> bool:
        """Return whether the model is evaluated after this FL round, counted from 0."""
        done = fl_round + 1
        return done % self.evaluate_every == 0 or done > self.fl_rounds - LAST_FL_ROUNDS

    def to_toml(self) -> str:
        return write_toml(options_of(Experiment), vars(self))

    @classmethod
    def from_toml(cls, text: str, **overrides: Any) -> Experiment:
        """Read a TOML text; `overrides` (the command line's flags, as text or values) win over it."""
        return cls.from_values(merge(parse_toml(text), overrides))

    @classmethod
    def from_values(cls, values: Mapping[str, Any], described: DatasetCard | None = None) -> Experiment:
        """Read values of a TOML file or of flags; a `method` among them stands for the settings it sets.

        `described` is the card of images in no catalogue.
        """
        return cls(**parse(options_of(cls), upgrade(with_method(values))), described=described)


def upgrade(values: Mapping[str, Any]) -> dict[str, Any]:
    """Translate settings of earlier versions into today's.

    `mu` was a setting of every experiment; now it is an option of FedProx, the only algorithm that has it.
    """
    new = dict(values)
    mu = new.pop("mu", None)
    options = write_pairs(ALGORITHMS.options("fedprox", f"mu={mu}")) if mu is not None else ""
    if new.get("algorithm") == "fedprox" and not new.get("algorithm_options"):
        new["algorithm_options"] = options
    return new


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return load_toml(text)
    except ValueError as error:
        raise ConfigurationError("config", str(error), "a TOML file of `name = value` lines") from None

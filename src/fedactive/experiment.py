"""One experiment: a frozen, documented configuration. Its defaults are the paper's.

Each field is defined once, with its help text and what it allows; the command line's flags, the TOML file and
the checks all come from here. The hash of the fields that decide the result names the run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedactive.data.catalog import DATASETS, DatasetCard
from fedactive.data.own_file import content_of, find_file, is_own_file, short_name
from fedactive.errors import ConfigurationError, unknown_name
from fedactive.federated import ALGORITHMS
from fedactive.federated.schedules import SCHEDULES
from fedactive.models import MODELS
from fedactive.options import check, parse, setting, settings_of, write_toml
from fedactive.query import STRATEGIES, make_strategy
from fedactive.query.strategy import parse_options

DATA, QUERY, LEARNING, MACHINE = "Data", "Active learning", "Federated learning", "Machine"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A federated active learning experiment. Values that depend on others are settled when it is made."""

    dataset: str = setting(
        "cifar10", "dataset (see `fedactive datasets`), or the path of an .npz file of your own", DATA
    )
    dataset_sha256: str = setting(
        "",
        "the first 12 digits of the SHA-256 of a file of your own; found by itself, and if given it must fit",
        DATA,
    )
    clients: int = setting(10, "number of clients K", DATA, low=1)
    alpha: float = setting(
        0.1, "Dirichlet concentration; the smaller, the more the clients differ; inf is IID", DATA, low=0.01
    )
    rho: float = setting(
        1.0, "global imbalance: largest over smallest class, long-tailed; 1 keeps all", DATA, low=1, high=1e4
    )
    partition: str = setting(
        "transport",
        "how samples are dealt to clients: exact integer transport, or the released code's procedure",
        DATA,
        choices=("transport", "reference"),
    )
    augment: str = setting("flip", "training augmentation", DATA, choices=("flip", "none"))

    strategy: str = setting("logo", "query strategy (see `fedactive strategies`)", QUERY, choices=STRATEGIES)
    selector: str = setting(
        "auto",
        "whose model chooses; auto is the strategy's own, or global where it leaves that open",
        QUERY,
        choices=("auto", "global", "local", "both", "none"),
    )
    strategy_options: str = setting(
        "", "parameters of the strategy as name=value,... (see `fedactive strategies`)", QUERY
    )
    budget: float = setting(
        5.0, "labels per AL round, percent of all training samples, shared equally", QUERY, low=0.01, high=100
    )
    rounds: int = setting(
        0,
        "AL rounds; 0 labels as far as the paper does (80% of cifar10, 60% of others); more prolong a run",
        QUERY,
        low=0,
        identity=False,
    )
    seed: int = setting(1, "seed of all randomness", QUERY, low=0, high=2**63 - 1)

    model: str = setting("cnn4", "architecture", LEARNING, choices=MODELS)
    algorithm: str = setting("fedavg", "federated algorithm", LEARNING, choices=ALGORITHMS)
    mu: float = setting(0.01, "strength of FedProx's proximal term", LEARNING, low=0, high=100)
    init: str = setting(
        "random",
        "global model at the start of an AL round: fresh weights, or the last round's",
        LEARNING,
        choices=("random", "continue"),
    )
    fl_rounds: int = setting(100, "FL rounds per AL round", LEARNING, low=1)
    local_epochs: int = setting(5, "epochs per client and FL round", LEARNING, low=1)
    participation: float = setting(1.0, "share of the clients in each FL round", LEARNING, low=0.001, high=1)
    batch_size: int = setting(64, "samples per SGD step", LEARNING, low=1)
    lr: float = setting(0.01, "initial learning rate", LEARNING, low=1e-8, high=100)
    momentum: float = setting(0.9, "SGD momentum", LEARNING, low=0, high=0.999)
    weight_decay: float = setting(1e-5, "SGD weight decay", LEARNING, low=0, high=1)
    schedule: str = setting(
        "paper",
        "learning-rate decay: x0.1 at one half and three quarters, or as in the released code",
        LEARNING,
        choices=SCHEDULES,
    )
    local_only_epochs: int = setting(50, "epochs of local-only training, at most", LEARNING, low=1)
    local_only_stop: float = setting(
        0.99, "local-only training ends at this training accuracy", LEARNING, low=0, high=1
    )
    precision: str = setting(
        "tf32",
        "arithmetic; on a CPU tf32 is the same as fp32",
        LEARNING,
        choices=("fp32", "tf32", "bf16"),
    )

    device: str = setting("auto", "where to train", MACHINE, choices=("auto", "cpu", "cuda"), identity=False)
    workers: int = setting(0, "worker processes on a CPU; 0 is one per core", MACHINE, low=0, identity=False)
    federation: str = setting(
        "simulation",
        "where the clients are: in this process, or on Flower's simulation engine, which may be a cluster",
        MACHINE,
        choices=("simulation", "flower-simulation"),
        identity=False,
    )
    data_dir: Path = setting(Path("data"), "folder of the datasets", MACHINE, identity=False)
    runs_dir: Path = setting(Path("runs"), "folder in which run folders are made", MACHINE, identity=False)

    def __post_init__(self) -> None:
        settle = object.__setattr__  # the class is frozen for everyone else
        for item in settings_of(Experiment):
            settle(self, item.name, check(item, getattr(self, item.name)))
        if is_own_file(self.dataset):
            file = find_file(self.dataset, self.data_dir, self.dataset_sha256)
            settle(self, "dataset_sha256", content_of(file))
        elif self.dataset not in DATASETS:
            raise unknown_name("dataset", self.dataset, DATASETS, ", or the path of an .npz file")
        elif self.dataset_sha256:
            raise ConfigurationError("dataset_sha256", self.dataset_sha256, f"none with {self.dataset}")
        allowed = STRATEGIES[self.strategy].selectors
        if self.selector == "auto":
            settle(self, "selector", allowed[0])
        elif self.selector not in allowed:
            raise ConfigurationError(
                "selector", self.selector, f"{' or '.join(allowed)} with strategy {self.strategy}"
            )
        options = parse_options(self.strategy, self.strategy_options)
        settle(self, "strategy_options", ",".join(f"{name}={value}" for name, value in options.items()))
        make_strategy(self.strategy, self.selector, self.strategy_options)  # one of a plugin may be wrong
        if self.rounds == 0:
            until = DATASETS.get(self.dataset, DatasetCard).label_until
            settle(self, "rounds", max(1, round(until / self.budget)))
        most = int(100 / self.budget) + 1  # one more for what rounding leaves
        if self.rounds > most:
            at_most = f"at most {most} with a budget of {self.budget:g}%"
            raise ConfigurationError("rounds", self.rounds, at_most)

    @property
    def name(self) -> str:
        """The run folder's name: readable, then the hash that makes it unique."""
        return f"{short_name(self.dataset)}-{self.strategy}-{self.selector}-s{self.seed}-{self.hash}"

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits of the fields that decide the result; where it runs is not among them.

        Defaults do not count: a setting added later leaves the names of older runs as they are. Of a file of
        the user's own its name and content count, and not where it lies.
        """
        values = vars(self) | {"dataset": short_name(self.dataset)}
        identity = {
            item.name: values[item.name]
            for item in settings_of(Experiment)
            if item.identity and values[item.name] != item.default
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]

    def to_toml(self) -> str:
        return write_toml(settings_of(Experiment), dataclasses.asdict(self))

    @classmethod
    def from_toml(cls, text: str, **overrides: Any) -> Experiment:
        """Read a TOML text; `overrides` (the command line's flags, as text or values) win over it."""
        return cls.from_values(parse_toml(text) | overrides)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Experiment:
        return cls(**parse(settings_of(cls), values))


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError("config", str(error), "a TOML file of `name = value` lines") from None


def strategy_label(experiment: Mapping[str, Any]) -> str:
    """`logo`, `entropy (local)`, `logo (micro=margin)`."""
    details = [] if experiment["selector"] in ("none", "both") else [experiment["selector"]]
    details += filter(None, [experiment.get("strategy_options")])
    return str(experiment["strategy"]) + (f" ({', '.join(details)})" if details else "")


def setting_labels(experiments: Sequence[Mapping[str, Any]]) -> list[str]:
    """What sets each experiment apart from the others besides strategy and seed: `alpha 0.1, rho 5`."""
    names = dict.fromkeys(name for experiment in experiments for name in experiment)
    same = {"strategy", "selector", "strategy_options", "seed"}
    same |= {item.name for item in settings_of(Experiment) if not item.identity}
    varied = [name for name in names if name not in same and len({str(e.get(name)) for e in experiments}) > 1]
    return [", ".join(f"{name} {e.get(name)}" for name in varied if e.get(name) != "") for e in experiments]

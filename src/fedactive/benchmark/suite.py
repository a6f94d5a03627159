"""A suite: settings, methods and seeds on which methods are compared, as one small TOML file.

question = "Which method is best on ...?"
methods = ["random", "logo", "entropy selector=local"]    # all published ones if left out
seeds = [1, 2, 3, 4]                                      # these if left out
metrics = ["accuracy", "balanced_accuracy"]               # accuracy alone if left out

[settings]              # of every run; a list compares several values
dataset = "cifar10"
alpha = [0.1, 1.0]

[[variants]]            # settings that go together, if lists are not enough; any number of these tables
budget = 1.0
rounds = 10
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from fedactive.errors import ConfigurationError, unknown_name
from fedactive.experiment import Experiment, parse_toml
from fedactive.options import options_of

BASELINE = "random"  # what others are measured by
SEEDS = (1, 2, 3, 4)
# The rows of LoGo's paper, then the methods that were published since.
PUBLISHED = (
    BASELINE,
    *(
        f"{name}{by}"
        for name in ("entropy", "coreset", "badge", "gcnal", "alfamix")
        for by in ("", " selector=local")
    ),
    "logo",
    "kafal",
    "feal",
    "fairfal",
    "ifal",
    "tmfal",
    "chase",
    "bald",
)
# What each item of a list is.
OF_LISTS = (
    ("methods", str, "a method, as text"),
    ("seeds", int, "a whole number"),
    ("metrics", str, "a metric, as text"),
    ("variants", dict, "a table [[variants]] of settings"),
)
OF_METHODS = ("method", "strategy", "selector", "strategy_options", "seed")  # no settings of a suite


@dataclass(frozen=True)
class Entry:
    """One row of a suite: a method, and how it is changed; written `entropy selector=local`."""

    method: str
    changes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, text: str) -> Entry:
        name, *words = text.split() or [""]
        pairs = [word.partition("=") for word in words]
        if not name or not all(sign and value for _, sign, value in pairs):
            raise ConfigurationError(
                "methods", text, "a method, or one with changes as in 'kafal selector=local'"
            )
        return cls(name, tuple((key, value) for key, _, value in pairs))

    @property
    def label(self) -> str:
        """Name the row in tables: `entropy (local)`."""
        words = [value if key == "selector" else f"{key}={value}" for key, value in self.changes]
        return self.method + (f" ({', '.join(words)})" if words else "")

    def experiment(self, settings: Mapping[str, Any]) -> Experiment:
        return Experiment.from_values({**settings, "method": self.method, **dict(self.changes)})


@dataclass(frozen=True)
class Suite:
    name: str
    question: str
    settings: dict[str, Any]
    methods: tuple[str, ...] = PUBLISHED
    seeds: tuple[int, ...] = SEEDS
    metrics: tuple[str, ...] = ("accuracy",)
    variants: tuple[dict[str, Any], ...] = ({},)

    @property
    def entries(self) -> list[Entry]:
        return [Entry.read(text) for text in self.methods]

    def places(self) -> dict[str, dict[str, Any]]:
        """Return the settings in which methods are compared, by a name that says how each differs."""
        every: list[dict[str, Any]] = []
        for variant in self.variants:
            axes = {k: v if isinstance(v, list) else [v] for k, v in (self.settings | variant).items()}
            every += [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
        varied = [key for key in every[0] if len({str(place.get(key)) for place in every}) > 1]
        compared = [key for key in varied if key not in MACHINE] or ["dataset"]
        names = [", ".join(name_value(key, place.get(key)) for key in compared) for place in every]
        if len(set(names)) < len(names):
            raise ConfigurationError("variants", names, "settings that differ in what decides results")
        return dict(zip(names, every, strict=True))

    def experiments(self, **overrides: Any) -> list[Experiment]:
        """List all runs, seed by seed: if they are stopped early, all methods have the same seeds."""
        return [
            entry.experiment(place | overrides | {"seed": seed})
            for seed in self.seeds
            for place in self.places().values()
            for entry in self.entries
        ]

    def of(
        self,
        methods: Sequence[str] | None = None,
        besides: Sequence[str] = (),
        seeds: int | None = None,
    ) -> Suite:
        """Return the suite with these methods in place of its own, with others besides, of so many seeds."""
        chosen = dict.fromkeys([*(self.methods if methods is None else methods), *besides])
        return replace(self, methods=tuple(chosen), seeds=self.first_seeds(seeds or len(self.seeds)))

    def first_seeds(self, count: int) -> tuple[int, ...]:
        """Return the first so many seeds; after the suite's own come those that follow the highest."""
        return (*self.seeds, *range(max(self.seeds) + 1, max(self.seeds) + 1 + count))[:count]


MACHINE = {item.name for item in options_of(Experiment) if not item.identity}


def name_value(key: str, value: Any) -> str:
    if key == "dataset":
        return Path(str(value)).stem
    return f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"


# --- reading


def shipped_suites() -> list[str]:
    folder = files("fedactive.benchmark").joinpath("suites")
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find_suite(name: str) -> Suite:
    """Return a suite that comes with fedactive, or one in a TOML file of the user's own."""
    path = Path(name)
    if path.suffix == ".toml" and path.is_file():
        try:
            return read_suite(path.stem, path.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError:
            raise ConfigurationError("suite", name, "a TOML file, which is text") from None
    if name not in shipped_suites():
        raise unknown_name("suite", name, shipped_suites(), ", or the path of a .toml file")
    text = files("fedactive.benchmark").joinpath("suites", f"{name}.toml").read_text(encoding="utf-8")
    return read_suite(name, text)


def read_suite(name: str, text: str) -> Suite:
    from fedactive.record.schema import METRICS  # needs pyarrow, which --help does without

    values = parse_toml(text)
    known = {field.name for field in fields(Suite)} - {"name"}
    for key in values:
        if key not in known:
            raise unknown_name(f"suite {name}", key, known)
    for key, kind, allowed in (
        ("question", str, "what it asks, as text"),
        ("settings", dict, "a table of settings of an experiment"),
        ("methods", list, "a list of methods"),
        ("seeds", list, "a list of seeds"),
        ("metrics", list, "a list of metrics"),
        ("variants", list, "tables [[variants]] of settings"),
    ):
        required = key in ("question", "settings")
        given = values.get(key, "nothing" if required else kind())
        empty = key in values and not given
        if empty or not isinstance(given, kind) or (required and key not in values):
            raise ConfigurationError(f"suite {name}: {key}", given, allowed)
    for key, wanted, allowed in OF_LISTS:
        for given in values.get(key, []):
            if type(given) is not wanted:
                raise ConfigurationError(f"suite {name}: {key}", given, allowed)
    for table in (values["settings"], *values.get("variants", [])):
        for key in OF_METHODS:
            if key in table:
                allowed = "none here: a suite has methods and seeds"
                raise ConfigurationError(f"suite {name}: {key}", table[key], allowed)
        for key, value in table.items():
            if value == []:
                raise ConfigurationError(f"suite {name}: {key}", value, "a value, or a list of one or more")
    for metric in values.get("metrics", []):
        if metric not in METRICS:
            raise unknown_name(f"suite {name}: metrics", metric, METRICS)
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return Suite(name=name, **(values | lists))

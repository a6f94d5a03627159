"""A grid of experiments: every combination of the values of its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.laboratory.inputs import load_inputs
from fedactive.laboratory.progress import make_progress
from fedactive.methods import with_method
from fedactive.options import check, options_of, parse
from fedactive.query.strategy import make_strategy
from fedactive.record.run_folder import require_same_origin, set_aside_outdated
from fedactive.registry import REGISTRIES, STRATEGIES, Registry


def expand(values: Mapping[str, Any]) -> list[Experiment]:
    """Make one experiment for each combination of the values that are lists.

    Strategies with one selector ignore the grid's selectors, and everything ignores options that only others
    in the grid have; such experiments appear once. Options that nothing in the grid has are refused.
    """
    values = dict(values) | getattr(values.get("dataset"), "settings", {})  # one that was made in Python
    axes = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    for name in (name for name, value in axes.items() if not value):
        raise ConfigurationError(name, [], "a list with at least one value")
    for item in options_of(Experiment):
        if not item.identity and len(axes.get(item.name, [])) > 1:
            raise ConfigurationError(item.name, axes[item.name], "one value: all would be the same run")
        for value in axes.get(item.name, []):
            check(item, parse([item], {item.name: value})[item.name])
    combinations = [with_method(dict(zip(axes, values, strict=True))) for values in product(*axes.values())]
    shared = {registry.kind: known_options(registry, combinations) for registry in REGISTRIES}
    experiments: dict[str, Experiment] = {}
    for chosen in combinations:
        strategy = STRATEGIES[str(chosen.get("strategy", Experiment.strategy))]
        if len(strategy.selectors) == 1:
            chosen.pop("selector", None)
        for registry in REGISTRIES:
            name = str(chosen.get(registry.kind, getattr(Experiment, registry.kind)))
            options = f"{registry.kind}_options"
            if options in chosen:
                of_others = shared[registry.kind] - {item.name for item in options_of(registry[name])}
                chosen[options] = leave_out(of_others, str(chosen[options]))
        experiment = drop_idle_options(Experiment.from_values(chosen))
        experiments.setdefault(experiment.name, experiment)
    return list(experiments.values())


def known_options(registry: Registry, combinations: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the options that something in the grid has."""
    names = {chosen.get(registry.kind, getattr(Experiment, registry.kind)) for chosen in combinations}
    return {item.name for name in names for item in options_of(registry[str(name)])}


def leave_out(names: set[str], text: str) -> str:
    """Remove the options of these names from `a=x,b=y`."""
    return ",".join(part for part in text.split(",") if part.partition("=")[0].strip() not in names)


def drop_idle_options(e: Experiment) -> Experiment:
    """Remove strategy options that have no effect, so that the run has the name that it has without them."""
    same = make_strategy(e.strategy, e.selector, e.strategy_options) == make_strategy(e.strategy, e.selector)
    return replace(e, strategy_options="") if same else e


def require_data(experiments: Sequence[Experiment], fresh: bool = False) -> None:
    """Read every dataset of the grid once: a missing or damaged one is reported before any run starts.

    Where there is a backbone, that embeds the images, so that no two runs of the grid do it.

    The same goes for data or a plugin that differ from those with which a run of the grid was begun; if
    `fresh`, such a run is begun anew.
    """
    fingerprints: dict[object, str] = {}
    for e in experiments:
        if e.inputs not in fingerprints:
            fingerprints[e.inputs] = load_inputs(e, make_progress()).fingerprint
        if fresh:
            set_aside_outdated(e, fingerprints[e.inputs])
        require_same_origin(e, fingerprints[e.inputs])

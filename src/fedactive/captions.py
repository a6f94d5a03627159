"""Name experiments in tables, pictures and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedactive.experiment import Experiment
from fedactive.options import options_of


def strategy_label(experiment: Mapping[str, Any], also: Sequence[str] = ()) -> str:
    """Name a strategy and what is particular about it: `logo`, `entropy (local)`, `logo (micro=margin)`.

    `also` are settings that belong to the name, too: `logo (algorithm scaffold)`.
    """
    details = [] if experiment["selector"] in ("none", "both") else [experiment["selector"]]
    details += filter(None, [experiment.get("strategy_options")])
    details += [f"{name} {experiment.get(name)}" for name in also if experiment.get(name) not in ("", None)]
    return str(experiment["strategy"]) + (f" ({', '.join(details)})" if details else "")


def setting_labels(experiments: Sequence[Mapping[str, Any]], without: Sequence[str] = ()) -> list[str]:
    """Say how each experiment differs from the others besides strategy and seed: `alpha 0.1, rho 5`."""
    varied = varied_settings(experiments, without)
    return [", ".join(f"{name} {e.get(name)}" for name in varied if e.get(name) != "") for e in experiments]


def varied_settings(experiments: Sequence[Mapping[str, Any]], without: Sequence[str] = ()) -> list[str]:
    """List the settings, besides strategy and seed, in which experiments differ."""
    names = dict.fromkeys(name for experiment in experiments for name in experiment)
    same = {"strategy", "selector", "strategy_options", "seed", *without}
    same |= {item.name for item in options_of(Experiment) if not item.identity}
    return [name for name in names if name not in same and len({str(e.get(name)) for e in experiments}) > 1]

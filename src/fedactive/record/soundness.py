"""Check the settings and numbers of a run that was read, from a run folder or from a results file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedactive.experiment import LAST_FL_ROUNDS, Experiment, upgrade
from fedactive.options import check, options_of
from fedactive.record.schema import METRICS
from fedactive.record.stored import DEFAULTS, StoredRun
from fedactive.record.tables import DamagedError

# Names are not checked: a strategy may be a plugin that is not loaded here.
SETTINGS = {i.name: replace(i, choices=None) for i in options_of(Experiment) if i.identity}
LARGEST = 2**63 - 1
NEEDED = ("dataset", "strategy", "seed")  # every run has these; all others may be defaults


def check_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as this version writes them; an exception says which one is wrong."""
    for name in NEEDED:
        if name not in given:
            raise KeyError(name)
    settings = upgrade({name: value for name, value in given.items() if value is not None})
    for name, value in settings.items():
        if not isinstance(value, bool | int | float | str):
            raise ValueError(f"its {name} is neither a number nor text")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(f"its {name} is too large a number")
        if isinstance(value, str) and not value.isprintable():
            raise ValueError(f"its {name} has characters that cannot be shown")
        if name in SETTINGS:
            settings[name] = check(SETTINGS[name], value)
    return settings


def check_run(run: StoredRun) -> StoredRun:
    """Return the run; DamagedError says which of its numbers cannot be true."""
    try:
        _check_rounds(run)
    except (ValueError, TypeError) as error:
        raise DamagedError(*run.remark(f"has results that cannot be true: {error}")) from None
    return run


def _check_rounds(run: StoredRun) -> None:
    rounds, settings = run.al_rounds, DEFAULTS | run.settings
    check_sequence([r.al_round for r in rounds])
    if run.ended_after is not None:
        missing = run.ended_after - len(rounds)
        require(missing <= 0, f"the last {missing} of its {run.ended_after} AL rounds are missing")
    if not rounds:
        require(run.finished is None, "it is finished without an AL round")
        return
    labelled = np.array([r.labelled for r in rounds])
    most = math.inf if run.samples is None else run.samples
    in_range("labelled", labelled, 0, most)
    require(bool((np.diff(labelled) >= 0).all()), "labels get fewer")

    for r in rounds:
        require(0 < len(r.accuracy) <= settings["fl_rounds"], f"accuracies of {len(r.accuracy)} FL rounds")
    accuracy = np.concatenate([np.array(r.accuracy, dtype=float) for r in rounds])
    for name, metric in METRICS.items():
        values = accuracy if name == "accuracy" else numbers([r.measure(name) for r in rounds])
        in_range(name, values, metric.low, metric.high)

    of_classes = numbers([r.class_accuracy for r in rounds], dimensions=2)
    in_range("class_accuracy", of_classes, 0, 1)
    shape = (settings["clients"], of_classes.shape[1])
    for r in rounds:
        if r.local_class_accuracy:
            local = numbers(r.local_class_accuracy, dimensions=2)
            in_range("class_accuracy", local, 0, 1)
            require(local.shape[0] <= shape[0] and local.shape[1] == shape[1], "classes or clients differ")
    if any(r.queried for r in rounds):
        queried = numbers([r.queried for r in rounds], dimensions=3)
        in_range("counts of labels", queried, 0, most)
        require(queried.shape[1] <= shape[0] and queried.shape[2] == shape[1], "classes or clients differ")
        bought = queried.sum(axis=(1, 2)).cumsum()
        require(bool((bought == labelled).all()), "labels by class do not add up to all labels")
        # Only between sites, where labels are not known, may test images be missing. With `evaluate_every`
        # some FL rounds are not measured, but the last ones, which count, always are.
        last = np.concatenate([np.array(r.accuracy[-LAST_FL_ROUNDS:], dtype=float) for r in rounds])
        require(not np.isnan(last).any(), "it has no accuracy, or one that is not a number")
    seconds = numbers([value for r in rounds for value in r.seconds.values()])
    in_range("seconds", seconds, 0, 1e12)
    require(not np.isnan(seconds).any(), "seconds are missing")


def check_date(text: str) -> str:
    datetime.fromisoformat(text)
    return text


def require(sound: bool, flaw: str) -> None:
    if not sound:
        raise ValueError(flaw)


def check_sequence(al_rounds: Sequence[int]) -> None:
    require(list(al_rounds) == list(range(1, len(al_rounds) + 1)), "its AL rounds are not 1, 2, 3 and so on")


def in_range(what: str, values: NDArray[Any], low: float, high: float) -> None:
    """Raise ValueError if a value is not in the range; NaN, an unknown value, is allowed."""
    wrong = values[(values < low) | (values > high)]
    if wrong.size:
        raise ValueError(f"{what} {wrong.flat[0]:g}, possible is {low:g} to {high:g}")


def numbers(values: Sequence[Any], dimensions: int = 1) -> NDArray[np.float64]:
    try:
        found = np.array(values, dtype=float)
    except ValueError:
        raise ValueError("rows differ in length") from None
    require(found.ndim == dimensions and (dimensions == 1 or found.size > 0), "values are missing")
    return found

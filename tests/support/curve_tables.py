"""Learning curves made of numbers small enough to check by hand."""

from __future__ import annotations

import math

import pandas as pd
from hypothesis import strategies as st

COLUMNS = ["strategy", "seed", "al_round", "labelled", "accuracy"]
WON = [3.0, 4.0, 3.0, 4.0]  # differences with t = 2·3.5/√(1/3) = 12.1
CLOSE = [1.0, -1.0, 2.0, 0.0]  # t = 2·0.5/1.291 = 0.77


def table(setting: str | None = None, **strategies: list[list[float]]) -> pd.DataFrame:
    """Curves from accuracies[round][seed]; a NaN is a run that did not get there."""
    rows = [
        (name, seed, al_round, 5.0 * al_round, accuracy)
        for name, rounds in strategies.items()
        for al_round, seeds in enumerate(rounds, start=1)
        for seed, accuracy in enumerate(seeds, start=1)
        if not math.isnan(accuracy)
    ]
    curves = pd.DataFrame(rows, columns=COLUMNS)
    return curves if setting is None else curves.assign(setting=setting)


def against(rounds: list[list[float]], setting: str | None = None) -> pd.DataFrame:
    """Strategies a and b, whose difference is as given."""
    return table(
        setting, a=[[60 + d for d in seeds] for seeds in rounds], b=[[60.0] * len(s) for s in rounds]
    )


@st.composite
def random_curves(draw: st.DrawFn, names: str = "abc") -> pd.DataFrame:
    """Complete curves with the resolution of 1,000 test images."""
    seeds, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    accuracy = st.integers(0, 1000).map(lambda correct: correct / 10)
    curve = st.lists(st.lists(accuracy, min_size=seeds, max_size=seeds), min_size=rounds, max_size=rounds)
    return table(**{name: draw(curve) for name in names})

"""Compare strategies by one number for each run: the mean accuracy on the way.

`areas` has a row for each run: `setting, strategy, seed, area`. Two strategies are compared seed by seed in
every setting that both have, since runs of one seed share clients, first labels and initial weights. These
paired differences go through one exact t-test per pair, and Holm's method corrects for all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedactive.analysis.significance import paired_tests


class Rivals(NamedTuple):
    """How a strategy stands to others."""

    better: list[str]  # than these
    worse: list[str]
    undecided: list[str]


def test_areas(areas: pd.DataFrame) -> pd.DataFrame:
    """Test all pairs: `i, j, n` differences, `mean_difference` (i minus j), `p_holm`, `significant`."""
    paired = areas["setting"].astype(str) + "/" + areas["seed"].astype(str)
    curves = areas.assign(seed=paired, al_round=1, labelled=1.0).rename(columns={"area": "accuracy"})
    return paired_tests(curves.drop(columns="setting"))


def test_each_setting(areas: pd.DataFrame) -> pd.DataFrame:
    """Do the same in every setting by itself; the column `setting` says in which."""
    return paired_tests(areas.assign(al_round=1, labelled=1.0).rename(columns={"area": "accuracy"}))


def standing(tests: pd.DataFrame, name: str, others: Sequence[str]) -> Rivals:
    """Say which of the others this one is significantly better and worse than, in their order."""
    better, worse = set(), set()
    decided: list[Any] = list(tests[tests["significant"]].itertuples())
    for test in decided:
        winner, loser = (test.i, test.j) if test.mean_difference > 0 else (test.j, test.i)
        if winner == name:
            better.add(loser)
        elif loser == name:
            worse.add(winner)
    rivals = [other for other in others if other != name]
    undecided = [other for other in rivals if other not in better | worse]
    return Rivals([n for n in rivals if n in better], [n for n in rivals if n in worse], undecided)

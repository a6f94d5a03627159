"""Say over which seeds numbers are, and whether these are enough."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

ENOUGH_SEEDS = 4  # with fewer hardly any difference is significant
FEW_SEEDS = "with fewer than four seeds hardly any difference can be significant"


def seeds_text(curves: pd.DataFrame) -> str:
    """Write `4 seeds (1 to 4)`, or `2 to 4 seeds (1 to 4)` where strategies or settings differ."""
    keys = [key for key in ("setting", "strategy") if key in curves]
    counts = sorted(set(curves.groupby(keys)["seed"].nunique()))
    many = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return f"{many} seed{'s' if counts[-1] > 1 else ''} ({name_seeds(curves['seed'].unique())})"


def name_seeds(seeds: Iterable[int]) -> str:
    """Write `1 to 4`, or `1, 2, 7`."""
    known = sorted(map(int, seeds))
    if len(known) > 2 and known == list(range(known[0], known[-1] + 1)):
        return f"{known[0]} to {known[-1]}"
    return ", ".join(map(str, known))


def few_seeds(curves: pd.DataFrame) -> bool:
    """Has any strategy in any setting fewer than four seeds?"""
    return bool((curves.groupby(["setting", "strategy"])["seed"].nunique() < ENOUGH_SEEDS).any())

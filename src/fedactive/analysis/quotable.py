"""One sentence about which strategy is best, and over which others that is significant, to be quoted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from fedactive.analysis.areas import standing, test_areas
from fedactive.analysis.curves import PERCENT, axis_of, percents
from fedactive.analysis.seeds import ENOUGH_SEEDS, FEW_SEEDS, seeds_text
from fedactive.analysis.significance import SIGNIFICANCE, aubc
from fedactive.record.schema import METRICS

MOST_NAMED = 6  # strategies; more are counted


class Judged(NamedTuple):
    """Curves as far as all runs of a setting have got, the area under each, and the tests of these."""

    curves: pd.DataFrame
    areas: pd.DataFrame
    tests: pd.DataFrame


def significance_sentence(measured: pd.DataFrame, metric: str = "accuracy") -> str:
    """Compare the strategies that all settings have, by their mean over these budgets.

    The curves have the metric as `accuracy`. Each run counts as far as all runs of its setting have got.
    """
    curves = shared_strategies(measured)
    names = sorted(curves["strategy"].unique())
    if len(names) < 2:
        count = measured["setting"].nunique()
        where = f" in all {count} settings" if count > 1 else ""
        alone = f"{f'Only {names[0]}' if names else 'No strategy'} was run{where}"
        if measured.groupby("setting")["strategy"].nunique().max() < 2:
            return f"{alone}, so no two can be compared."
        return f"{alone}, so none can be called the best; they are compared in the settings that they share."
    curves = as_far_as_all(curves)
    areas = areas_under(curves, metric)
    return describe(Judged(curves, areas, test_areas(areas)), metric)


def areas_under(curves: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Compute each run's mean of the metric on the way, negative where less is better."""
    sign = -1 if METRICS[metric].lower_is_better else 1
    return aubc(curves.assign(accuracy=sign * curves["accuracy"])).rename(columns={"aubc": "area"})


def describe(judged: Judged, metric: str) -> str:
    """Write the sentence."""
    curves, areas, tests = judged
    entry = METRICS[metric]
    sign = -1 if entry.lower_is_better else 1
    means = areas.groupby(["strategy", "setting"])["area"].mean().groupby("strategy").mean()
    order = list(means.sort_values(ascending=False).index)
    best = order[0]
    text = f"{best} has the {'lowest' if entry.lower_is_better else 'highest'} mean {entry.title} "
    text += f"{span(curves)} ({entry.show(sign * means[best])}{'%' if entry.percent else ''})"
    settings = curves["setting"].nunique()
    where = f"Over {seeds_text(curves)}{f' in {settings} settings' if settings > 1 else ''}, "
    if tests["p"].isna().all():
        return f"{where}{text}, and no two strategies have the seeds in common that a test needs."
    rivals = standing(tests, best, order)
    tested = tests[tests["p"].notna()]
    own = tests[(tests["i"] == best) | (tests["j"] == best)]
    p_of = {(t.j if t.i == best else t.i): t.p_holm for t in own.itertuples()}
    parts = []
    if rivals.better:
        p = at_most([p_of[name] for name in rivals.better])
        parts.append(f"it is significantly better than {listing(rivals.better)} (p {p})")
    if rivals.undecided:
        count, others = len(rivals.undecided), "others" if rivals.better else "other strategies"
        whom = f"the {count} {others}" if count > MOST_NAMED else listing(rivals.undecided)
        parts.append(f"it is not shown to differ from {whom}")
    if rivals.worse:  # which have fewer seeds, or more
        parts.append(f"with the seeds in common it is significantly worse than {listing(rivals.worse)}")
    rule = f"exact paired t-tests by seed{' and setting' if settings > 1 else ''}, "
    rule += f"Holm's correction for all {len(tested)} pairs" if len(tested) > 1 else ""
    rule = f"{rule.rstrip(', ')}, {SIGNIFICANCE:.0%} level"
    few = curves.groupby(["setting", "strategy"])["seed"].nunique().min() < ENOUGH_SEEDS
    return f"{where}{text}; {', and '.join(parts)} ({rule}){f'; {FEW_SEEDS}' if few else ''}."


def shared_strategies(curves: pd.DataFrame) -> pd.DataFrame:
    """Keep the strategies that were run in every setting."""
    settings = curves.groupby("strategy")["setting"].nunique()
    return curves[curves["strategy"].isin(settings.index[settings == curves["setting"].nunique()])]


def as_far_as_all(curves: pd.DataFrame) -> pd.DataFrame:
    """Keep the AL rounds that all runs of a setting have."""
    reached = curves.groupby(["setting", "strategy", "seed"])["al_round"].transform("max")
    return curves[curves["al_round"] <= reached.groupby(curves["setting"]).transform("min")]


def span(curves: pd.DataFrame) -> str:
    """Say over which budgets the mean is: `from 5% to 20% labelled`."""
    axis = axis_of(curves)
    labelled = curves.groupby(["setting", "al_round"])[axis.column].mean()
    ends = np.unique([labelled.min(), labelled.max()])
    shown = percents(ends) if axis is PERCENT else [f"{end:.0f}" for end in ends]
    what = "labelled" if axis is PERCENT else "labels"
    return f"from {shown[0]} to {shown[1]} {what}" if len(shown) > 1 else f"at {shown[0]} {what}"


def listing(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def at_most(p_values: list[float]) -> str:
    """Write the largest: `= 0.027` of one, `≤ 0.027` of several."""
    most = max(p_values)
    return "< 0.001" if most < 0.001 else f"{'=' if len(p_values) == 1 else '≤'} {most:.2g}"

"""The paper's tables as Markdown. Bold marks what needs explaining: a number far off, a claim not held."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedactive.analysis.markdown import format_mean, to_markdown
from fedactive.paper.claims import HELD, NOT_HELD, NOT_TESTABLE

TOLERANCE = 1.5  # points of accuracy by which a number may differ from the paper's
NO_RUNS = "There are no runs of this table.\n"
NUMBERS = {"paper", "ours", "std", "seeds", "difference", "low", "high", "inside", "note", "labelled_percent"}


def side_by_side(table: pd.DataFrame, *, accuracy: bool) -> str:
    """Write a table of `tables.table` with three columns for each percent labelled, without rows of no runs.

    They are the paper's number, ours ± standard deviation (seeds), and the difference. For accuracies a
    difference beyond the tolerance is bold. A sentence says how near accuracies or EMDs are to the paper's.
    """
    emd = "measure" in table
    digits = 3 if emd else 2  # as the paper prints them
    names = [name for name in table if name not in NUMBERS and len(set(table[name])) > 1] or ["strategy"]
    table = table[table["seeds"] > 0]
    if table.empty:
        return NO_RUNS
    difference = table["difference"]
    near = difference.abs() <= TOLERANCE
    cells = table.assign(
        paper=[f"{x:.{digits}f}" for x in table["paper"]],
        ours=[format_mean(*x, digits) for x in zip(table["ours"], table["std"], table["seeds"], strict=True)],
        difference=[
            f"{x:+.{digits}f}" if ok or not accuracy else f"**{x:+.{digits}f}**"
            for x, ok in zip(difference, near, strict=True)
        ],
    ).pivot_table(
        index=names,
        columns="labelled_percent",
        values=["paper", "ours", "difference"],
        aggfunc="first",
        sort=False,
    )
    percents = sorted(table["labelled_percent"].unique(), key=lambda p: float(str(p).split("->")[0]))
    columns = {f"{p}% {what}": cells[what, p] for p in percents for what in ("paper", "ours", "difference")}
    text = to_markdown(pd.DataFrame(columns).reset_index())
    if emd:
        text += f"\nThe mean distance from the paper's numbers is {difference.abs().mean():.4f}.\n"
    elif accuracy:
        text += (
            f"\n{near.sum()} of {len(near)} numbers lie within {TOLERANCE:g} points of the paper's; "
            f"the mean difference is {difference.mean():+.2f}.\n"
        )
    return text


def curves_table(curves: pd.DataFrame) -> str:
    """Write learning curves as a table: a row per strategy, a column per percent labelled."""
    table = curves.pivot_table(
        index="strategy",
        columns="labelled",
        values="accuracy",
        aggfunc=lambda seeds: format_mean(seeds.mean(), seeds.std(), len(seeds), 2),
    )
    ordered = table.loc[curves["strategy"].unique()]
    return to_markdown(ordered.rename(columns="{:g}%".format).reset_index())


def claims_table(claims: pd.DataFrame) -> str:
    """Write the claims of `claims.claims`: how many were held, and a table with a column per percent.

    A claim without any runs is left out.
    """
    claims = claims[claims.groupby(["claim", "where"])["seeds"].transform("max") > 0]
    if claims.empty:
        return "There are no runs to judge by.\n"
    text = [format_verdict(claim) for claim in claims.itertuples(index=False)]
    table = claims.assign(text=text).pivot_table(
        index=["claim", "where"], columns="labelled_percent", values="text", aggfunc="first", sort=False
    )
    table = table.sort_index(axis=1).rename(columns="{:g}%".format).reset_index()
    judged, contrary = claims["seeds"] > 0, claims["paper"] < 0
    found = claims[judged & ~contrary]["verdict"].value_counts()
    counted = ", ".join(f"{found.get(name, 0)} {name}" for name in (HELD, NOT_HELD, NOT_TESTABLE))
    if uncounted := (judged & contrary).sum():
        counted += f"; not counted: {uncounted} of which the paper's own numbers say the opposite"
    return f"Verdicts: {counted}.\n\n{to_markdown(table)}"


def format_verdict(claim: Any) -> str:
    if claim.seeds == 0:
        return "–"
    digits = 2 if claim.measure == "accuracy" else 3
    paper = f", paper {claim.paper:+.{digits}f}" if pd.notna(claim.paper) else ""
    ours = format_mean(claim.ours, claim.error, claim.seeds, digits, sign="+")
    return f"{'**not held**' if claim.verdict == NOT_HELD else claim.verdict}: {ours}{paper}"

"""Our tables as Markdown. Bold marks what needs an explanation: a number far off, a claim not held."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from fedactive.analysis.markdown import format_mean, to_markdown
from fedactive.analysis.verdicts import HELD, NOT_HELD, UNDECIDED
from fedactive.paper.agreement import rank_agreement

NO_RUNS = "There are no runs of this table.\n"
NUMBERS = {"paper", "ours", "std", "seeds", "difference", "low", "high", "inside", "note", "labelled_percent"}
LIMITS = {"limit", "near"}
DATASETS = {"cifar10": "CIFAR-10", "svhn": "SVHN", "pathmnist": "PathMNIST", "dermamnist": "DermaMNIST"}


def side_by_side(table: pd.DataFrame) -> str:
    """Write a table of `tables.table` with three columns for each percent labelled, without rows of no runs.

    They are the paper's number, ours ± standard deviation (seeds), and the difference. With limits of
    agreement a difference beyond its limit is bold, and a sentence counts them.
    """
    emd, limits = "measure" in table, "limit" in table
    digits = 3 if emd else 2  # as the paper prints them
    apart = NUMBERS | LIMITS
    names = [name for name in table if name not in apart and len(set(table[name])) > 1] or ["strategy"]
    table = table[table["seeds"] > 0]
    if table.empty:
        return NO_RUNS
    near = table["near"] | table["limit"].isna() if limits else pd.Series(True, table.index)
    cells = table.assign(
        paper=[f"{x:.{digits}f}" for x in table["paper"]],
        ours=[format_mean(*x, digits) for x in zip(table["ours"], table["std"], table["seeds"], strict=True)],
        difference=[
            f"{x:+.{digits}f}" if ok else f"**{x:+.{digits}f}**"
            for x, ok in zip(table["difference"], near, strict=True)
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
        text += f"\nThe mean distance from the paper's numbers is {table['difference'].abs().mean():.4f}.\n"
    elif limits:
        text += f"\n{agreement_sentence(table)}\n"
    return text


def agreement_sentence(table: pd.DataFrame) -> str:
    """Say how many numbers lie within the limits, how far they are on average, and how alike the order is."""
    known = table[table["limit"].notna()]
    widths = sorted({f"{limit:.2f}" for limit in known["limit"]})
    width = f" (±{widths[0]}" + (f" to {widths[-1]}" if len(widths) > 1 else "") + ")" if widths else ""
    ranks = rank_agreement(table)
    near = (
        f"{known['near'].sum()} of {len(known)} numbers lie within the limits of agreement{width}; the mean"
    )
    within = near if len(known) else "With one seed there are no limits of agreement; the mean"
    order = ", ".join(f"{value:.2f} at {_where(key)}" for key, value in ranks.items())
    return f"{within} difference is {table['difference'].mean():+.2f}." + (
        f" Rank correlation with the paper: {order}." if order else ""
    )


def _where(key: Any) -> str:
    *algorithm, percent = key if isinstance(key, tuple) else (key,)
    return " ".join([f"{percent:g}%", *(f"with {name}" for name in algorithm)])


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
    """Write the claims of `claims.claims` one by one: verdict, differences, p, and differences by percent.

    Claims without any runs are left out.
    """
    claims = claims[claims["seeds"] > 0]
    if claims.empty:
        return "There are no runs to judge by.\n"
    rows = []
    for claim in each(claims):
        digits = 2 if claim.measure == "accuracy" else 3
        row = {
            "claim": claim.claim,
            "where": claim.where,
            "verdict": format_verdict(claim) + ("" if claim.counted else " (contrary)"),
            "ours": format_mean(claim.ours, claim.error, claim.seeds, digits, sign="+"),
            "paper": "" if pd.isna(claim.paper) else f"{claim.paper:+.{digits}f}",
            "p, Holm": _format_p(claim.p),
            "p, sign flips": _format_p(claim.p_flip),
        }
        by_percent = {
            f"{percent:g}% ours / paper": f"{ours:+.{digits}f} / {paper:+.{digits}f}"
            for percent, (ours, paper) in claim.parts.items()
            if pd.notna(ours)
        }
        rows.append(row | by_percent)
    table = pd.DataFrame(rows)
    fixed = list(table)[:7]
    percents = sorted(set(map(str, table)) - set(map(str, fixed)), key=lambda name: float(name.split("%")[0]))
    text = to_markdown(table[[*fixed, *percents]].fillna("")).replace(" / +nan", "")
    return f"Verdicts: {count_verdicts(claims)}.\n\n{text}"


def count_verdicts(claims: pd.DataFrame) -> str:
    """Count the verdicts on claims that could be tested: "8 held, 22 undecided, 0 not held"."""
    tested = claims[claims["seeds"] > 1]
    found = tested[tested["counted"]]["verdict"].value_counts()
    counted = ", ".join(f"{found.get(name, 0)} {name}" for name in (HELD, UNDECIDED, NOT_HELD))
    if uncounted := (~tested["counted"]).sum():
        counted += f"; not counted: {uncounted} of which the paper's own numbers say the opposite"
    return counted


def verdicts_by_dataset(new: pd.DataFrame, everything: pd.DataFrame) -> str:
    """Write one row per claim and one column per dataset: the verdict from new seeds first, then from all.

    Observations, which are about CIFAR-10 alone, are counted in one cell.
    """
    rows: dict[str, dict[str, list[str]]] = {}
    for table in (new, everything):
        for (name, where), part in table[table["seeds"] > 1].groupby(["claim", "where"], sort=False):
            (claim,) = each(part)
            if where in DATASETS:
                text = f"{format_verdict(claim)} ({claim.seeds})" + ("" if claim.counted else "†")
                short = re.sub("the (local-only|global) model", "the model that the paper names", str(name))
                rows.setdefault(short, {}).setdefault(where, []).append(text)
        observed = table[table["claim"].str.startswith("Observation") & (table["seeds"] > 1)]
        for name, part in observed.groupby("claim", sort=False):
            rows.setdefault(str(name), {}).setdefault("cifar10", []).append(count_verdicts(part))
    if not rows:
        return "There are no runs to judge by.\n"
    frame = pd.DataFrame(
        [
            {"claim": name} | {title: "; ".join(cells.get(d, ["–"])) for d, title in DATASETS.items()}
            for name, cells in rows.items()
        ]
    )
    return to_markdown(frame)


def summary_text(accuracies: pd.DataFrame, claims: pd.DataFrame) -> str:
    """Say in two sentences how near the numbers are, and what became of the claims."""
    run = accuracies[accuracies["seeds"] > 0]
    tested = claims[(claims["seeds"] > 1) & claims["counted"]]
    found = tested["verdict"].value_counts()
    return (
        f"Of the {len(accuracies)} accuracies that the paper prints {len(run)} were run, and "
        f"{run['near'].sum()} of these lie within the limits that the seeds of both allow; the mean "
        f"difference is {run['difference'].mean():+.2f} points. Of {len(tested)} claims that can be tested "
        f"{found.get(HELD, 0)} held, {found.get(NOT_HELD, 0)} did not, and {found.get(UNDECIDED, 0)} are "
        f"undecided, corrected for each other.\n"
    )


def each(claims: pd.DataFrame) -> list[Any]:
    return list(claims.itertuples(index=False))


def format_verdict(claim: Any) -> str:
    if claim.seeds < 2:
        return "–"
    return "undecided" if claim.verdict == UNDECIDED else f"**{claim.verdict}**"


def _format_p(p: float) -> str:
    return "" if pd.isna(p) else "<0.001" if p < 0.001 else f"{p:.3f}"

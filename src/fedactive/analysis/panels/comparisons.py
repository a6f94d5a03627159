"""Comparisons of strategies: the tests of one setting, and the penalty matrix of all settings."""

from __future__ import annotations

import pandas as pd

from fedactive.analysis.panels import Sortable, TableCell, Values

COLUMNS = ["comparison", "better", "worse", "tested", "seeds", "difference", "p (Holm)"]


def tests_panel(tests: pd.DataFrame, strategies: set[str]) -> Values:
    """Make a row for each pair of strategies that was tested, the largest difference first.

    The note says how many were not.
    """
    tests = tests[tests["i"].isin(strategies) & tests["j"].isin(strategies)]
    pairs = {pair: part[part["t"].notna()] for pair, part in tests.groupby(["i", "j"])}
    rows = [_pair(str(i), str(j), part) for (i, j), part in pairs.items() if len(part)]
    rows.sort(key=lambda row: -row[1][-2].value)  # the difference
    untested = len(pairs) - len(rows)
    note = ""
    if len(strategies) == 1:
        note = "Only one strategy was run in this setting."
    elif tests.empty:
        note = "No two strategies of this setting have a known accuracy."
    elif untested:
        note = f"{untested} of {len(pairs)} pairs have fewer than two seeds in common: no test."
    return {"table": Sortable(COLUMNS, rows), "note": note, "untested": untested}


def _pair(i: str, j: str, rounds: pd.DataFrame) -> tuple[str, list[TableCell]]:
    """Make a row that begins with the better one in the last round. It may have no p: see `paired_tests`."""
    last = rounds.iloc[-1]
    gain = rounds["mean_difference"]
    if last["mean_difference"] < 0:
        i, j, gain = j, i, -gain
    sure = rounds["significant"]
    counts = (sure & (gain > 0)).sum(), (sure & (gain < 0)).sum(), rounds["p"].count(), last["n"]
    end, p, kind = abs(gain.iloc[-1]), last["p_holm"], "best" if last["significant"] else ""
    sureness = "–" if pd.isna(p) else "<0.001" if p < 0.001 else f"{p:.3f}"
    cells = [TableCell(n, n) for n in counts]
    cells += [TableCell(end, f"+{end:.1f}", kind), TableCell(p, sureness, kind)]
    return f"{i} over {j}", cells


def penalty_table(P: pd.DataFrame, curves: pd.DataFrame) -> Values:
    """Make rows of cells, each with its text, how much of the accent colour it has, and whether it is dark.

    If strategies differ in the number of settings in which they were run, `settings` has these numbers: a
    strategy that was run in few settings has few defeats.
    """
    counts = curves.groupby("strategy")["setting"].nunique()[P.columns].tolist()
    top = float(P.to_numpy().max(initial=1e-9))
    rows = [
        (
            name,
            [
                ("" if column == name else f"{value:.2f}", f"{0.9 * value / top:.2f}", value > 0.6 * top)
                for column, value in row.items()
            ],
        )
        for name, row in P.iterrows()
    ]
    return {"columns": list(P.columns), "rows": rows, "settings": counts if len(set(counts)) > 1 else []}

"""The parts of the report: from tables of runs to the values and pictures that its template shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedactive.analysis.charts import Line, bar_chart, heat_map, line_chart, png
from fedactive.analysis.diversity import LABELLED, QUERY, Counts, emd_by_round, query_counts
from fedactive.analysis.results import Runs
from fedactive.analysis.significance import (
    SIGNIFICANCE,
    confidence_band,
)
from fedactive.data import DATASETS, load
from fedactive.errors import UserError

RESAMPLES = 1000  # for a band in a picture; the ends move by less than its line's width
THUMBNAILS = 96  # per strategy

Values = dict[str, Any]


def band_of(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    band = confidence_band(table, rng=rng, resamples=RESAMPLES)
    labelled = table.groupby(["setting", "strategy", "al_round"], as_index=False)["labelled"].mean()
    return band.merge(labelled, on=["setting", "strategy", "al_round"])


def lines_chart(band: pd.DataFrame, styles: dict[str, int], title: str, y: str, **options: Any) -> Markup:
    lines = [
        Line(str(name), styles[str(name)], *(part[k].tolist() for k in ("labelled", "mean", "low", "high")))
        for name, part in band.sort_values("al_round").groupby("strategy")
    ]
    return Markup(line_chart(lines, title, "labelled (% of all samples)", y, **options))


def learning_chart(band: pd.DataFrame, styles: dict[str, int]) -> Markup | None:
    return lines_chart(band, styles, "Learning curves", "test accuracy (%)") if len(band) else None


def band_note(curves: pd.DataFrame) -> str:
    known = curves.dropna(subset="accuracy")
    if known.empty:
        return "The accuracy is unknown: no site had test images."
    seeds = known.groupby("strategy")["seed"].nunique()
    if seeds.max() == 1:
        return "One seed each: there is no band, and no telling luck from merit."
    few = " With so few seeds bands are too narrow." if seeds.min() < 10 else ""
    return f"Mean over seeds with its 95% bootstrap band.{few}"


def accuracy_table(curves: pd.DataFrame) -> Values:
    """Rows best at the end first; ranks go by what is shown, so that equal numbers look equal."""
    mean, std = (
        curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc=how, dropna=False)
        for how in ("mean", "std")
    )
    mean = mean.sort_values(mean.columns[-1], ascending=False)
    shown = mean.round(1)
    ranks = shown.rank(method="dense", ascending=False)
    ranks.loc[:, shown.nunique() < 2] = np.nan  # no contest, as in round 1
    labelled = curves.groupby("al_round")["labelled"].mean()
    rounds = curves.groupby("strategy")["al_round"].max()
    seeds = curves.groupby("strategy")["seed"].nunique()
    rows = []
    for name in mean.index:
        numbers = zip(
            mean.columns,
            mean.loc[name].tolist(),
            std.loc[name].tolist(),
            ranks.loc[name].tolist(),
            strict=True,
        )
        cells = [
            {
                "value": m,
                "mean": f"{m:.1f}" if not np.isnan(m) else "unknown" if r <= rounds[name] else "–",
                "std": "" if np.isnan(s) else f"{s:.1f}",
                "rank": {1: "best", 2: "second"}.get(rank, ""),
            }
            for r, m, s, rank in numbers
        ]
        rows.append({"name": name, "seeds": seeds[name], "cells": cells})
    return {"columns": [f"{labelled[r]:.0f}%" for r in mean.columns], "rows": rows}


def tests_table(tests: pd.DataFrame, strategies: set[str]) -> Values:
    """One row per pair of strategies of this setting; a pair never tested is left to the note."""
    tests = tests[tests["i"].isin(strategies) & tests["j"].isin(strategies)]
    rows, without = [], 0
    for (i, j), all_rounds in tests.groupby(["i", "j"]):
        part = all_rounds[all_rounds["t"].notna()]
        if part.empty:
            without += 1
            continue
        last = part.iloc[-1]
        if last["mean_difference"] < 0:  # the better one comes first
            i, j, part = j, i, part.assign(mean_difference=-part["mean_difference"])
        sure = part["significant"]
        numbers = [(sure & (part["mean_difference"] > 0)).sum(), (sure & (part["mean_difference"] < 0)).sum()]
        numbers += [len(part), last["n"]]
        cells: list[Values] = [{"value": n, "text": n} for n in numbers]
        gain, p = abs(last["mean_difference"]), last["p_holm"]
        cells.append({"value": gain, "text": f"+{gain:.1f}", "best": last["significant"]})
        cells.append({"value": p, "text": "<0.001" if p < 0.001 else f"{p:.3f}", "best": p < SIGNIFICANCE})
        rows.append({"name": f"{i} over {j}", "cells": cells, "order": -gain})
    note = f"{without} of {without + len(rows)} pairs have fewer than two seeds in common: no test." * (
        without > 0
    )
    if tests.empty:
        note = "No two strategies of this setting have a known accuracy."
    if len(strategies) == 1:
        note = "Only one strategy was run in this setting."
    return {"rows": sorted(rows, key=lambda row: row["order"]), "note": note, "without": without}


def penalty_table(P: pd.DataFrame) -> Values:
    top = float(P.to_numpy().max(initial=1e-9))
    rows = []
    for name, values in zip(P.index, P.to_numpy(), strict=True):
        cells = [
            {
                "text": "" if column == name else f"{value:.2f}",
                "share": f"{0.9 * value / top:.2f}",
                "dark": value > 0.6 * top,
            }
            for column, value in zip(P.columns, values, strict=True)
        ]
        rows.append({"name": name, "cells": cells})
    return {"columns": list(P.columns), "rows": rows}


# ------------------------------------------------------------------------------------------------ classes


def class_balance(runs: Runs) -> tuple[pd.DataFrame, dict[str, Counts]]:
    """`emd_by_round` of all runs, with the columns of learning curves, and the runs' counts at their end."""
    tables, final = [], {}
    dataset = runs.configuration.set_index("run")["dataset"]
    columns = [runs.selections[name].to_numpy() for name in ("al_round", "client", "label")]
    for run, rows in rows_by_run(runs.selections).items():
        r, k, y = (column[rows].astype(np.int64) for column in columns)
        if len(y) == 0 or y.min() < 0:  # sites may keep labels to themselves
            continue
        known = DATASETS.get(dataset[run])
        queried = query_counts(r, k, y, len(known.classes) if known else 0)
        final[run] = queried.sum(axis=0)
        tables.append(emd_by_round(queried).assign(run=run))
    if not tables:
        return pd.DataFrame(), final
    return runs.curves.drop(columns="accuracy").merge(pd.concat(tables), on=["run", "al_round"]), final


def emd_curves(emd: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What each chart of EMD shows, as learning curves; a round in which nobody asked has no query."""
    sets = {"": LABELLED, " query": QUERY} if len(emd) else {}
    return {
        which + name: emd[emd["what"] == what].dropna(subset=which).rename(columns={which: "accuracy"})
        for name, what in sets.items()
        for which in ("local", "global")
    }


def rows_by_run(table: pd.DataFrame) -> dict[str, slice]:
    """Where the rows of each run are. They lie together: slices spare copies of millions of rows."""
    codes, names = table["run"].cat.codes.to_numpy(), table["run"].cat.categories
    bounds = np.searchsorted(codes, np.arange(len(names) + 1, dtype=codes.dtype)).tolist()
    return dict(zip(names, map(slice, bounds, bounds[1:]), strict=True))


def emd_charts(bands: dict[str, pd.DataFrame], styles: dict[str, int]) -> list[Markup]:
    return [
        lines_chart(band, styles, f"{name} EMD".capitalize(), f"{name} EMD", digits=2, size=(480, 330))
        for name, band in bands.items()
        if len(band)
    ]


def class_heat_maps(first: pd.DataFrame, counts: dict[str, Counts]) -> list[tuple[str, Markup]]:
    here = [row for row in first.to_dict("records") if row["run"] in counts]
    most = max((int(counts[row["run"]].max()) for row in here), default=1)
    return [
        (
            row["label"],
            Markup(
                heat_map(
                    counts[row["run"]],
                    class_names(row["dataset"], counts[row["run"]]),
                    f"Labels of {row['label']}",
                    most,
                )
            ),
        )
        for row in here
    ]


def class_names(dataset: str, counts: Counts) -> list[str]:
    names = list(DATASETS[dataset].classes) if dataset in DATASETS else []
    return names + [str(c) for c in range(len(names), counts.shape[1])]


def image_panel(
    runs: Runs, first: pd.DataFrame, dataset: str, data_dir: Path | None
) -> tuple[list[Values], str]:
    """Thumbnails by client and AL round of the first seed's run of every strategy, or why there are none."""
    where = rows_by_run(runs.selections)
    tables = {row["run"]: runs.selections.iloc[where[row["run"]]] for row in first.to_dict("records")}
    first = first[[tables[run]["sample"].min() >= 0 for run in first["run"]]]
    if first.empty:
        return [], "Images are not shown: only the sites know which were queried."
    try:
        data = load(dataset, data_dir or Path(first["data_dir"].iloc[0]))
    except UserError as error:
        return [], f"Images are not shown: {error}."
    strategies = []
    for row in first.to_dict("records"):
        table = tables[row["run"]]
        if table["sample"].max() >= len(data.train_images):
            return [], f"Images are not shown: {dataset} here is not the one that was used."
        last = int(table["al_round"].max())
        rounds = sorted({min(2, last), (2 + last) // 2, last})  # round 1 is random for all
        clients = sorted(table["client"].unique())[:6]
        each = min(5, THUMBNAILS // (len(rounds) * len(clients)))
        cells = {
            key: [
                {"src": png(data.train_images[s].numpy()), "name": data.classes[int(data.train_labels[s])]}
                for s in part["sample"].head(each)
            ]
            for key, part in table.groupby(["client", "al_round"])
            if key[0] in clients and key[1] in rounds
        }
        rows = [{"client": k, "cells": [cells.get((k, r), []) for r in rounds]} for k in clients]
        strategies.append({"name": row["label"], "seed": row["seed"], "rounds": rounds, "rows": rows})
    return strategies, ""


# --------------------------------------------------------------------------------------------------- time


def time_unit(seconds: float) -> tuple[str, float]:
    return next(
        (u, s) for u, s, most in (("s", 1, 600), ("min", 60, 36e3), ("h", 3600, np.inf)) if seconds < most
    )


def time_panel(part: pd.DataFrame, seconds: pd.DataFrame, bought: pd.Series) -> Values | None:
    table = (
        seconds.reindex(part["run"])
        .groupby(part["label"].to_numpy())
        .mean()
        .dropna(axis=1, how="all")
        .fillna(0)
    )
    if table.empty:
        return None
    unit, scale = time_unit(table.sum(axis=1).max())
    table = table.loc[table.sum(axis=1).sort_values().index] / scale
    phases = [str(phase) for phase in table.columns]
    labels = bought.reindex(part["run"]).groupby(part["label"].to_numpy()).mean()
    rows = []
    for name, values in zip(map(str, table.index), table.to_numpy(), strict=True):
        numbers = [*values, values.sum()]
        cells = [{"value": labels[name], "text": f"{labels[name]:,.0f}"}]
        cells += [{"value": v, "text": f"{v:.3g}" if v >= 0.001 else "0"} for v in numbers]
        rows.append({"name": name, "cells": cells})
    chart = bar_chart(
        dict(zip(map(str, table.index), table.to_numpy().tolist(), strict=True)),
        phases,
        "Time of one run by phase",
        unit,
    )
    columns = ["strategy", "labels", *(f"{phase} ({unit})" for phase in phases), f"all ({unit})"]
    return {"chart": Markup(chart), "columns": columns, "rows": rows}

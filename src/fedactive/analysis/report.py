"""The report: one self-contained HTML page of any number of runs, with what they say and how sure that is.

Numbers come from `results`, `significance` and `diversity`'s definitions, pictures from `charts`; this module
only brings them into the order of the page, whose form is in report.html.jinja.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment

from fedactive import __version__
from fedactive.analysis.panels import (
    Values,
    accuracy_table,
    band_note,
    band_of,
    class_balance,
    class_heat_maps,
    emd_charts,
    emd_curves,
    image_panel,
    learning_chart,
    penalty_table,
    tests_table,
    time_panel,
    time_unit,
)
from fedactive.analysis.results import Runs, read_runs
from fedactive.analysis.significance import (
    PAPER_THRESHOLD,
    paired_tests,
    penalty_matrix,
)
from fedactive.analysis.stored import DEFAULTS
from fedactive.runs import write_atomically

TITLE = "Federated active learning report"


def write_report(paths: Sequence[Path], output: Path, data_dir: Path | None = None) -> Runs:
    """Read the runs in `paths` and write the page; images are looked for in `data_dir`, or the runs' own."""
    runs = read_runs(paths)
    template = Environment(autoescape=True, trim_blocks=True).from_string(
        files("fedactive.analysis").joinpath("report.html.jinja").read_text(encoding="utf-8")
    )
    page = template.render(_page(runs, data_dir))
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, page.encode())
    return runs


def _page(runs: Runs, data_dir: Path | None) -> Values:
    configuration = runs.configuration
    styles = {name: k for k, name in enumerate(sorted(configuration["label"].unique()))}
    measured = runs.curves.dropna(subset="accuracy")  # sites may have no test images
    tests = paired_tests(measured)
    emd, counts = class_balance(runs)
    rng = np.random.default_rng(0)
    accuracy = band_of(measured, rng)
    balance = {name: band_of(table, rng) for name, table in emd_curves(emd).items()}
    seconds = runs.timings.pivot_table(
        index="run", columns="phase", values="seconds", aggfunc="sum", observed=True, sort=False
    )
    labels = runs.metrics.groupby("run", observed=True)["labelled"].max()
    panels = []
    pictured: set[str] = set()  # datasets whose images are shown
    for setting, part in configuration.groupby("setting"):
        of_setting = {name: band[band["setting"] == setting] for name, band in balance.items()}
        curves = runs.curves[runs.curves["setting"] == setting]
        first = part.sort_values("seed").drop_duplicates("label").sort_values("label")
        dataset = part["dataset"].iloc[0]
        images: list[Values] = []
        note = f"Images are shown in the first setting of {dataset} only." * (dataset in pictured)
        if dataset not in pictured:
            images, note = image_panel(runs, first, dataset, data_dir)
            pictured |= {dataset} if images else set()
        panels.append(
            {
                "heading": setting or "Results",
                "curves": learning_chart(accuracy[accuracy["setting"] == setting], styles),
                "band_note": band_note(curves),
                "accuracy": accuracy_table(curves),
                "tests": tests_table(tests[tests["setting"] == setting], set(part["label"])),
                "emd": emd_charts(of_setting, styles),
                "heat": class_heat_maps(first, counts),
                "seed": first["seed"].min(),
                "images": images,
                "images_note": note,
                "time": time_panel(part, seconds, labels),
            }
        )
    return {
        "title": TITLE,
        "version": __version__,
        "summary": _summary(configuration),
        "common": [
            (name, _plain(configuration[name].iloc[0]))
            for name in DEFAULTS
            if (configuration[name] == configuration[name].iloc[0]).all()
            and configuration[name].iloc[0] != ""
        ],
        "machines": _machines(configuration),
        "matrix": penalty_table(penalty_matrix(measured)),
        "threshold": PAPER_THRESHOLD,
        "untested": sum(panel["tests"]["without"] for panel in panels),
        "panels": panels,
        "configurations": _configurations(configuration),
        "skipped": runs.skipped,
    }


# ------------------------------------------------------------------------------------------ what was run


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _summary(configuration: pd.DataFrame) -> str:
    def several(column: str, word: str) -> str:
        n = configuration[column].nunique()
        return f"{n} {word}{'s' * (n > 1)}"

    datasets = ", ".join(sorted(configuration["dataset"].unique()))
    parts = [several("label", "strategy").replace("ys", "ies"), several("setting", "setting")]
    return f"{several('run', 'run')} on {datasets}: {', '.join(parts)}, {several('seed', 'seed')}."


def _machines(configuration: pd.DataFrame) -> list[Values]:
    rows = []
    for (hardware, software), part in configuration.groupby(["hardware", "software"], sort=False):
        dates = sorted({finished[:10] for finished in part["finished"]})
        unit, scale = time_unit(part["seconds"].sum())
        time = f"{part['seconds'].sum() / scale:.3g} {unit}"
        between = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        rows.append(
            {"hardware": hardware, "software": software, "runs": len(part), "time": time, "dates": between}
        )
    return rows


def _configurations(configuration: pd.DataFrame) -> list[Values]:
    columns = [name for name in configuration if name not in ("run", "label", "setting")]
    return [
        {"name": row["run"], "text": "\n".join(f"{name} = {_plain(row[name])}" for name in columns)}
        for row in configuration.to_dict("records")
    ]

"""Write the report: one self-contained HTML page about any number of runs.

Its parts are in `panels`, each with its numbers and pictures. This module puts them together; the page's
templates are in `page`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader

from fedactive import __version__
from fedactive.analysis.areas import test_each_setting
from fedactive.analysis.panels import Values, what_was_run
from fedactive.analysis.panels.accuracy import accuracy_table, band_chart, band_note, band_of, metrics_table
from fedactive.analysis.panels.class_balance import class_heat_maps, emd_charts, emd_curves
from fedactive.analysis.panels.comparisons import penalty_table, tests_panel
from fedactive.analysis.panels.cost import cost_panel
from fedactive.analysis.panels.images import image_panel
from fedactive.analysis.panels.summary import settings_table, strategies_table
from fedactive.analysis.quotable import Judged, areas_under, as_far_as_all, describe, significance_sentence
from fedactive.analysis.results import Runs, read_runs
from fedactive.analysis.seeds import few_seeds
from fedactive.analysis.significance import paired_tests, penalty_matrix, winning
from fedactive.files import expand_home, write_output

TITLE = "Federated active learning report"
FEW_SETTINGS = 3  # more are folded, and found by the table of settings


def write_report(paths: Sequence[str | Path], output: str | Path, data_dir: str | Path | None = None) -> Runs:
    """Read the runs in `paths` and write the page; images are looked for in `data_dir`, or the runs' own."""
    runs = read_runs([*map(expand_home, paths)])
    parts = PackageLoader("fedactive.analysis", "page")
    template = Environment(autoescape=True, trim_blocks=True, loader=parts).get_template("report.html.jinja")
    page = template.render(_page(runs, None if data_dir is None else expand_home(data_dir)))
    write_output(expand_home(output), page.encode(errors="replace"))  # a folder's name may be no text
    return runs


def _page(runs: Runs, data_dir: Path | None) -> Values:
    configuration = runs.configuration
    measured = runs.curves.dropna(subset="accuracy")  # sites may have no test images
    curves = as_far_as_all(measured)
    areas = areas_under(curves)
    judged = Judged(curves, areas, test_each_setting(areas))
    settings = _settings(runs, measured, judged, data_dir)
    return {
        "title": TITLE,
        "version": __version__,
        "summary": what_was_run.summary(configuration),
        "sentence": significance_sentence(measured),
        "strategies": strategies_table(areas),
        "settings": settings_table(runs, areas, judged.tests),
        "winning": winning(),
        "unfolded": len(settings) <= FEW_SETTINGS,
        "common": what_was_run.common_settings(configuration),
        "machines": what_was_run.machines(configuration),
        "diverged": what_was_run.diverged_runs(configuration),
        "matrix": penalty_table(penalty_matrix(measured), measured),
        "few_seeds": few_seeds(measured),
        "untested": sum(panel["tests"]["untested"] for panel in settings),
        "panels": settings,
        "configurations": what_was_run.configurations(configuration),
        "skipped": runs.skipped,
    }


def _settings(runs: Runs, measured: pd.DataFrame, judged: Judged, data_dir: Path | None) -> list[Values]:
    """Make the panels of each setting; statistics are computed once for all of them."""
    rng = np.random.default_rng(0)
    accuracy = band_of(measured, rng)
    balance = {name: band_of(curves, rng) for name, curves in emd_curves(runs).items()}
    tests = paired_tests(measured)
    panels = []
    pictured: set[str] = set()  # datasets whose images are shown
    for setting, part in runs.configuration.groupby("setting"):
        here = partial(_rows_of, setting)
        first = part.sort_values("seed").drop_duplicates("label").sort_values("label")
        dataset = part["dataset"].iloc[0]
        images: list[Values] = []
        if dataset in pictured:
            note = f"Images are shown in the first setting of {dataset} only."
        else:
            images, note = image_panel(first, runs.queried.keys(), data_dir)
            pictured |= {dataset} if images else set()
        panels.append(
            {
                "heading": setting or "Results",
                "words": " ".join([str(setting), str(dataset), *map(str, first["label"])]),
                "sentence": sentence_in(setting, judged) if setting else "",
                "curves": band_chart(here(accuracy), "Learning curves", "test accuracy (%)"),
                "band_note": band_note(here(runs.curves)),
                "accuracy": accuracy_table(here(runs.curves)),
                "metrics": metrics_table(here(runs.curves)),
                "tests": tests_panel(here(tests), set(part["label"])),
                "emd": emd_charts({name: here(band) for name, band in balance.items()}),
                "heat": class_heat_maps(first, runs.queried, data_dir),
                "images": images,
                "images_note": note,
                "cost": cost_panel(here(runs.curves), runs.seconds),
            }
        )
    return panels


def sentence_in(setting: object, judged: Judged) -> str:
    """Say what is significant in a setting, if there is something to compare."""
    own = Judged(*(_rows_of(setting, table) for table in judged))
    return describe(own, "accuracy") if len(set(own.areas["strategy"])) > 1 else ""


def _rows_of(setting: object, table: pd.DataFrame) -> pd.DataFrame:
    return table[table["setting"] == setting]

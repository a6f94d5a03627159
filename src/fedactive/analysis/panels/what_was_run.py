"""What was run: the runs in one sentence, what they have in common, on which machines, and each in full."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedactive.analysis.panels import Values
from fedactive.analysis.panels.cost import time_unit
from fedactive.record.stored import DEFAULTS

SITES_ENGINE = "sites engine"  # in the hardware of a run between sites
# Settings that say nothing of such a run: nobody splits or deals samples, and sites train where they are.
LABORATORY = {"alpha", "rho", "partition", "data_dir", "runs_dir", "device", "workers", "federation"}
LABORATORY |= {"dataset_sha256", "test_share", "scored_images", "weights", "track"}


def summary(configuration: pd.DataFrame) -> str:
    def several(column: str, one: str, more: str) -> str:
        n = configuration[column].nunique()
        return f"{n} {one if n == 1 else more}"

    datasets = ", ".join(sorted(configuration["dataset"].unique()))
    counts = several("label", "strategy", "strategies"), several("setting", "setting", "settings")
    seeds = several("seed", "seed", "seeds")
    return f"{several('run', 'run', 'runs')} on {datasets}: {', '.join(counts)}, {seeds}."


def common_settings(configuration: pd.DataFrame) -> list[tuple[str, str]]:
    first = configuration.iloc[0]
    same = [name for name in DEFAULTS if (configuration[name] == first[name]).all() and first[name] != ""]
    if configuration["hardware"].map(is_between_sites).all():
        same = [name for name in same if is_said(name, first[name])]
    return [(name, _plain(first[name])) for name in same]


def is_said(name: object, value: Any) -> bool:
    """Return whether a setting says something of a run between sites; without a backbone no size is set."""
    return name not in LABORATORY and (name, value) != ("image_size", 0)


def is_between_sites(hardware: str) -> bool:
    return SITES_ENGINE in hardware


def machines(configuration: pd.DataFrame) -> list[Values]:
    rows = []
    for (hardware, software), part in configuration.groupby(["hardware", "software"], sort=False):
        dates = sorted({finished[:10] for finished in part["finished"]})
        seconds = part["seconds"].sum()
        unit, length = time_unit(seconds)
        rows.append(
            {
                "hardware": hardware,
                "software": software,
                "runs": len(part),
                "time": f"{seconds / length:.3g} {unit}",
                "dates": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
            }
        )
    return rows


def diverged_runs(configuration: pd.DataFrame) -> list[str]:
    """Return the names of runs whose training is known to have diverged."""
    if "diverged" not in configuration:
        return []
    return configuration.loc[configuration["diverged"].notna(), "run"].tolist()


def configurations(configuration: pd.DataFrame) -> list[Values]:
    columns = [str(name) for name in configuration if name not in ("run", "label", "setting")]

    def lines(row: dict[Any, Any]) -> list[str]:
        anywhere = not is_between_sites(row["hardware"])
        known = [name for name in columns if pd.notna(row[name]) and (anywhere or is_said(name, row[name]))]
        return [f"{name} = {_plain(row[name])}" for name in known]

    rows = configuration.to_dict("records")
    return [
        {
            "name": row["run"],
            "words": f"{row['run']} {row['label']} {row['setting']}",
            "text": "\n".join(lines(row)),
        }
        for row in rows
    ]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

"""In which arithmetic the runs on the paper's datasets were made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedactive.paper.settings import all_settings
from fedactive.record.stored import StoredRun


def precisions(runs: Iterable[StoredRun]) -> list[str]:
    """List the kinds of arithmetic in which there are runs on the paper's datasets."""
    datasets = {setting.dataset for setting in all_settings()}
    identities = [dict(run.identity) for run in runs]
    return sorted({run["precision"] for run in identities if run["dataset"] in datasets})


def shared_precision(runs: Iterable[StoredRun]) -> dict[str, Any]:
    """Return the precision of all of these runs, as a setting to find them by; nothing if they differ in it.

    The paper does not say which it used, so where there is only one there is nothing to choose.
    """
    found = precisions(runs)
    return {"precision": found[0]} if len(found) == 1 else {}

"""In which arithmetic the runs on the paper's datasets were made: by images, with budgets in percent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedactive.paper.settings import all_settings
from fedactive.record.stored import StoredRun


def precisions(runs: Iterable[StoredRun]) -> list[str]:
    """List the kinds of arithmetic in which there are such runs."""
    datasets = {setting.dataset for setting in all_settings()}
    identities = [dict(run.identity) for run in runs]
    return sorted({own["precision"] for own in identities if own["dataset"] in datasets and is_alike(own)})


def is_alike(settings: Mapping[str, Any]) -> bool:
    """Return whether a run could be one of the paper's; one with few labels and a backbone could not."""
    return not settings["backbone"] and not isinstance(settings["budget"], str)


def shared_precision(runs: Iterable[StoredRun]) -> dict[str, Any]:
    """Return the precision of all of these runs, as a setting to find them by; nothing if they differ in it.

    The paper does not say which it used, so where there is only one there is nothing to choose.
    """
    found = precisions(runs)
    return {"precision": found[0]} if len(found) == 1 else {}

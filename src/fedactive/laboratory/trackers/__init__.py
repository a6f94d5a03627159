"""Experiment trackers that are told how a run goes, one file each: `--track NAME`."""

from __future__ import annotations

from fedactive.experiment import Experiment
from fedactive.laboratory.tracker import Tracker
from fedactive.registry import TRACKERS


def trackers_of(experiment: Experiment) -> list[Tracker]:
    """Make the experiment's tracker, if it has one."""
    return [TRACKERS.make(experiment.track)] if experiment.track else []

"""Accidents in the middle of things: a run of a rehearsal, and what must hold at its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing

import numpy as np
import torch

from fedactive.errors import UserError
from fedactive.record.run_folder import read_checkpoint
from fedactive.record.run_tables import RunTables
from fedactive.sites.coordinator import launch
from fedactive.sites.coordinator.status import read_status
from fedactive.sites.rehearsal import Rehearsal, wait_for

SECONDS_FOR_A_PHASE = 400


class Hesitating(dict):
    """What somebody knows, but not before they may answer: people who are quicker than the run leave no phase."""

    may_answer = threading.Event()

    def __getitem__(self, picture):
        self.may_answer.wait()
        return super().__getitem__(picture)


def run_with_accidents(
    rehearsal: Rehearsal, text: str, accidents: Mapping[str, Callable[[], object]]
) -> RunTables:
    """Run this plan, and have each accident when the run is in the phase of its name."""
    coordinator = rehearsal.coordinator
    plan = coordinator.keep_plan(text)
    folder = coordinator.run_folder(plan)
    results: list[RunTables] = []

    def insist():
        """What a person does: give the same command again."""
        while not results:
            try:
                results.append(launch.run(coordinator, plan))
            except UserError:
                time.sleep(1)

    insisting = threading.Thread(target=insist, daemon=True)
    insisting.start()
    try:
        for phase, accident in accidents.items():
            wait_for(lambda p=phase: p in str(read_status(folder).phase), phase, SECONDS_FOR_A_PHASE)
            accident()
            if "labelling" in phase:
                Hesitating.may_answer.set()
            if "FL round" in phase:
                Hesitating.may_answer.clear()
    finally:
        Hesitating.may_answer.set()
    insisting.join(SECONDS_FOR_A_PHASE)
    assert results
    return results[0]


def assert_no_label_is_lost(rehearsal: Rehearsal) -> None:
    """What the pages have confirmed to people, and nothing else, is in the stores of the sites."""
    for person in rehearsal.people:
        person.stop()
    for person in rehearsal.people:
        person.join()
    for site, person in zip(rehearsal.sites, rehearsal.people, strict=True):
        with closing(site.store()) as store:
            labels = store.labels()
        assert person.answers == {sample: labels.get(sample) for sample in person.answers}
        assert len(labels) == len(person.answers) > 0


def assert_same_numbers(ours: RunTables, theirs: RunTables) -> None:
    """Where both were evaluated the accuracies are the same, and so are the models at the end."""
    measured, expected = (
        run.metrics[run.metrics["model"] == "global"].set_index(["al_round", "fl_round"])["accuracy"].dropna()
        for run in (ours, theirs)
    )
    assert len(measured)
    np.testing.assert_allclose(measured, expected[measured.index], atol=1e-9)
    mine, other = (read_checkpoint(run.folder / "checkpoint.pt").server.weights for run in (ours, theirs))
    for name, value in other.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-4, atol=1e-5)

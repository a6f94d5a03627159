"""Everything is killed in turn, in the middle of things; the run ends, and no label is lost.

It takes minutes, for Flower refuses a SuperNode for one after another with its key was killed. So it runs
when asked for: `make field-chaos`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

import pytest

from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.sites.coordinator import launch
from fedactive.sites.coordinator.status import read_status
from fedactive.sites.rehearsal import Rehearsal, wait_for

pytestmark = pytest.mark.skipif(
    "FEDACTIVE_CHAOS" not in os.environ, reason="takes minutes; `make field-chaos` runs it"
)

PLAN = """
dataset = "digits"
augment = "none"
strategy = "logo"
rounds = 4
fl_rounds = 4
local_epochs = 2
local_only_epochs = 4
device = "cpu"

[field]
evaluate_every = 4
patience = 1.5
"""


def kill_site(rehearsal):
    site = rehearsal.sites[0]
    rehearsal.running[site.name].kill()
    rehearsal.running[site.name].wait()
    rehearsal.start_site(site)


def kill_supernode(rehearsal):
    parent = rehearsal.running[rehearsal.sites[1].name].pid
    children = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True).stdout
    for child in children.split():
        os.kill(int(child), signal.SIGKILL)


def kill_superlink(rehearsal):
    os.kill(rehearsal.coordinator.superlink()["pid"], signal.SIGKILL)


def kill_coordinator(rehearsal):
    rehearsal.running["coordinator"].kill()
    rehearsal.running["coordinator"].wait()
    rehearsal.start("coordinator", "coordinator", "serve", str(rehearsal.coordinator.folder))


class Hesitating(dict):
    """What somebody knows, but not before they may answer: people who are quicker than the run leave no phase."""

    may_answer = threading.Event()

    def __getitem__(self, picture):
        self.may_answer.wait()
        return super().__getitem__(picture)


# Each of the four in the middle of each phase: three accidents in each AL round.
ACCIDENTS = {
    "AL round 1: choosing": kill_site,
    "AL round 1: people are labelling": kill_supernode,
    "AL round 1: FL round 2": kill_superlink,
    "AL round 2: choosing": kill_supernode,
    "AL round 2: people are labelling": kill_superlink,
    "AL round 2: FL round 2": kill_coordinator,
    "AL round 3: choosing": kill_superlink,
    "AL round 3: people are labelling": kill_coordinator,
    "AL round 3: FL round 2": kill_site,
    "AL round 4: choosing": kill_coordinator,
    "AL round 4: people are labelling": kill_site,
    "AL round 4: FL round 2": kill_supernode,
}


def test_the_run_ends_and_no_label_is_lost(tmp_path):
    experiment = Experiment(dataset="digits", clients=3, augment="none")
    rehearsal = Rehearsal(tmp_path / "rehearsal", experiment)
    for person in rehearsal.people:
        person.known = Hesitating(person.known)
    with rehearsal:
        coordinator = rehearsal.coordinator
        plan = coordinator.keep_plan(PLAN)
        folder = coordinator.run_folder(plan)
        results = []

        def insist():
            """What a person does: give the same command again."""
            while not results:
                try:
                    results.append(launch.run(coordinator, plan))
                except UserError:
                    time.sleep(1)

        insisting = threading.Thread(target=insist, daemon=True)
        insisting.start()
        for phase, accident in ACCIDENTS.items():
            wait_for(lambda p=phase: p in str(read_status(folder).phase), phase, 400)
            accident(rehearsal)
            if "labelling" in phase:
                Hesitating.may_answer.set()
            if "FL round" in phase:
                Hesitating.may_answer.clear()
        insisting.join(400)
        assert results
        Hesitating.may_answer.set()
        for person in rehearsal.people:
            person.stop()
        for person in rehearsal.people:
            person.join()
        for site, person in zip(rehearsal.sites, rehearsal.people, strict=True):
            store = site.store()
            labels = store.labels()
            assert person.answers == {sample: labels.get(sample) for sample in person.answers}
            assert len(labels) == len(person.answers) > 0
            store.close()
    assert results[0].accuracy.notna().all()
    assert set(results[0].selections["client"]) == {0, 1, 2}

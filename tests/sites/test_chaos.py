"""Everything is killed in turn, in the middle of things; the run ends, and no label is lost.

It takes minutes, for Flower refuses a SuperNode for one after another with its key was killed. So it runs
when asked for: `make field-chaos`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial

import pytest

from fedactive.experiment import Experiment
from fedactive.sites.rehearsal import Rehearsal
from support.accidents import Hesitating, assert_no_label_is_lost, run_with_accidents

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
    rehearsal.start_coordinator()


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
    accidents = {phase: partial(accident, rehearsal) for phase, accident in ACCIDENTS.items()}
    with rehearsal:
        result = run_with_accidents(rehearsal, PLAN, accidents)
        assert_no_label_is_lost(rehearsal)
    assert result.accuracy.notna().all()
    assert set(result.selections["client"]) == {0, 1, 2}

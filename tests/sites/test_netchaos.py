"""Everything befalls the network, in the middle of things: the run ends with the same numbers, and no label is lost.

Coordinator and sites are in network namespaces of their own (support/internet.py). The line of each is bad all
the time: packets are lost, late, and overtake each other. It takes minutes, so it runs when asked for:
`make field-netchaos`. What takes seconds is in test_far.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from fedactive.experiment import Experiment
from fedactive.laboratory import run as laboratory
from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.invitation import Invitation
from fedactive.sites.rehearsal import wait_for
from support.accidents import Hesitating, assert_no_label_is_lost, run_with_accidents
from support.far_rehearsal import HUB, FarRehearsal
from support.internet import CUT, FAIR, Weather, require_internet

pytestmark = pytest.mark.skipif(
    "FEDACTIVE_CHAOS" not in os.environ, reason="takes minutes; `make field-netchaos` runs it"
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
minimum_sites = 3       # a site that was away is waited for, so that the numbers stay the same
"""

BAD = Weather(loss=0.01, delay=0.02, jitter=0.03)
SECONDS_OF_A_CUT = 15.0
SECONDS_UNTIL_A_SITE_IS_AWAY = 75.0  # Flower forgets a site that was silent for a minute
SECONDS_TO_FOLLOW = 120.0


class Accidents:
    """What befalls the network; at the end of each it is as bad as always."""

    def __init__(self, rehearsal: FarRehearsal) -> None:
        self.rehearsal = rehearsal
        self.hub = rehearsal.hub
        self.north, self.south, self.west = (rehearsal.host(site.name) for site in rehearsal.sites)

    def the_line_of_a_site_is_cut(self):
        self.during(self.north, CUT, SECONDS_OF_A_CUT)

    def the_line_of_the_coordinator_is_cut(self):
        self.during(self.hub, CUT, SECONDS_OF_A_CUT)

    def a_site_is_away_for_long(self):
        self.during(self.south, CUT, SECONDS_UNTIL_A_SITE_IS_AWAY)

    def a_site_hears_and_is_not_heard(self):
        self.west.sends = CUT
        time.sleep(SECONDS_OF_A_CUT)
        self.west.suffers(BAD)

    def every_fourth_packet_is_lost(self):
        self.during(self.hub, Weather(loss=0.25, delay=0.1, jitter=0.4), 2 * SECONDS_OF_A_CUT)

    def the_line_is_narrow(self):
        self.during(self.hub, Weather(rate=32 * 1024), 2 * SECONDS_OF_A_CUT)

    def a_firewall_forgets_all_connections(self):
        self.rehearsal.internet.forget_connections()

    def the_coordinator_has_another_address_under_its_name(self):
        self.hub.move("10.77.0.100")
        self.rehearsal.internet.publish()

    def the_coordinator_ends_while_nobody_reaches_it(self):
        self.hub.suffers(CUT)
        self.restart_coordinator()
        self.hub.suffers(BAD)

    def the_coordinator_moves_to_another_name(self):
        """Both names lead to it until the sites have followed; then only the new one."""
        internet, address = self.rehearsal.internet, self.rehearsal.coordinator.address
        internet.publish(new=self.hub.address)
        new = address.replace(f"{HUB}.", "new.")
        Coordinator(self.rehearsal.coordinator.folder).move(new)
        self.restart_coordinator()
        wait_for(lambda: all(where(site) == new for site in self.rehearsal.sites), new, SECONDS_TO_FOLLOW)
        internet.hosts["new"] = internet.hosts.pop(HUB)
        internet.publish()
        internet.forget_connections()

    def restart_coordinator(self):
        rehearsal = self.rehearsal
        rehearsal.running["coordinator"].kill()
        rehearsal.running["coordinator"].wait()
        rehearsal.start_coordinator()

    def during(self, host, weather, seconds):
        host.suffers(weather)
        time.sleep(seconds)
        host.suffers(BAD)


def where(site) -> str:
    return Invitation.read(site.folder / "invitation.toml").address


ACCIDENTS = {
    "AL round 1: choosing": Accidents.the_line_of_a_site_is_cut,
    "AL round 1: people are labelling": Accidents.a_site_is_away_for_long,
    "AL round 1: FL round 2": Accidents.the_line_of_the_coordinator_is_cut,
    "AL round 2: choosing": Accidents.a_firewall_forgets_all_connections,
    "AL round 2: people are labelling": Accidents.the_coordinator_has_another_address_under_its_name,
    "AL round 2: FL round 2": Accidents.a_site_hears_and_is_not_heard,
    "AL round 3: choosing": Accidents.every_fourth_packet_is_lost,
    "AL round 3: people are labelling": Accidents.the_coordinator_moves_to_another_name,
    "AL round 3: FL round 2": Accidents.the_line_is_narrow,
    "AL round 4: choosing": Accidents.the_coordinator_ends_while_nobody_reaches_it,
    "AL round 4: people are labelling": Accidents.the_line_of_a_site_is_cut,
    "AL round 4: FL round 2": Accidents.a_firewall_forgets_all_connections,
}


def test_the_run_ends_with_the_same_numbers_and_no_label_is_lost(tmp_path: Path) -> None:
    require_internet()
    text = PLAN.split("[field]")[0]
    experiment = Experiment.from_toml(text, clients=3, workers=1, runs_dir=tmp_path / "laboratory")
    undisturbed = laboratory.run(experiment)
    rehearsal = FarRehearsal(tmp_path / "rehearsal", experiment)
    for person in rehearsal.people:
        person.known = Hesitating(person.known)
    with rehearsal:
        rehearsal.everybody_suffers(BAD)
        accidents = Accidents(rehearsal)
        result = run_with_accidents(
            rehearsal, PLAN, {phase: lambda a=a: a(accidents) for phase, a in ACCIDENTS.items()}
        )
        rehearsal.everybody_suffers(FAIR)
        assert_no_label_is_lost(rehearsal)
    assert result.accuracy.tolist() == pytest.approx(undisturbed.accuracy.tolist(), abs=1e-9)
    ours, theirs = (read_checkpoint(run.folder / "checkpoint.pt").server for run in (result, undisturbed))
    for name, value in theirs.weights.items():
        torch.testing.assert_close(ours.weights[name], value, rtol=1e-4, atol=1e-5)

"""Everything befalls the network, in the middle of things: the run ends with the same numbers, no label is lost.

Coordinator and sites are in network namespaces of their own (support/internet.py). The line of each is bad all
the time: packets are lost, late, and overtake each other. The long test takes minutes, so it runs when asked
for: `make field-netchaos`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fedactive.experiment import Experiment
from fedactive.laboratory import run as laboratory
from fedactive.record.run_tables import RunTables
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.invitation import Invitation
from fedactive.sites.rehearsal import wait_for
from support.accidents import (
    Hesitating,
    assert_no_label_is_lost,
    assert_same_numbers,
    run_with_accidents,
)
from support.far_rehearsal import HUB, FarRehearsal
from support.internet import CUT, Weather, require_internet

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

SHORT_PLAN = """
dataset = "digits"
augment = "none"
strategy = "entropy"
rounds = 1
fl_rounds = 2
local_epochs = 2
device = "cpu"

[field]
evaluate_every = 2
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
        self.sites = [rehearsal.host(site.name) for site in rehearsal.sites]

    def the_line_of_a_site_is_cut(self):
        self.during(self.sites[0], CUT, SECONDS_OF_A_CUT)

    def the_line_of_the_coordinator_is_cut(self):
        self.during(self.hub, CUT, SECONDS_OF_A_CUT)

    def a_site_is_away_for_long(self):
        self.during(self.sites[1], CUT, SECONDS_UNTIL_A_SITE_IS_AWAY)

    def a_site_hears_and_is_not_heard(self):
        self.sites[2].sends = CUT
        time.sleep(SECONDS_OF_A_CUT)
        self.sites[2].suffers(BAD)

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


def test_a_cut_and_a_bad_line_change_no_number(tmp_path):
    plan = SHORT_PLAN
    with undisturbed_and_far(tmp_path, plan, clients=1) as (undisturbed, rehearsal):
        cut = partial(Accidents(rehearsal).during, rehearsal.hub, CUT, 2.0)
        result = run_with_accidents(rehearsal, plan, {"AL round 1: people are labelling": cut})
        assert_no_label_is_lost(rehearsal)
    assert_same_numbers(result, undisturbed)


@pytest.mark.skipif(
    "FEDACTIVE_CHAOS" not in os.environ, reason="takes minutes; `make field-netchaos` runs it"
)
def test_whatever_befalls_the_network_changes_no_number(tmp_path):
    with undisturbed_and_far(tmp_path, PLAN, clients=3) as (undisturbed, rehearsal):
        accidents = Accidents(rehearsal)
        by_phase = {phase: partial(accident, accidents) for phase, accident in ACCIDENTS.items()}
        result = run_with_accidents(rehearsal, PLAN, by_phase)
        assert_no_label_is_lost(rehearsal)
    assert_same_numbers(result, undisturbed)


@contextmanager
def undisturbed_and_far(tmp_path: Path, plan: str, clients: int) -> Iterator[tuple[RunTables, FarRehearsal]]:
    """The run of this plan in the laboratory, and sites for it, each behind a bad line."""
    require_internet()
    text, runs = plan.split("[field]")[0], tmp_path / "laboratory"
    experiment = Experiment.from_toml(text, clients=clients, workers=1, runs_dir=runs)
    undisturbed = laboratory.run(experiment)
    rehearsal = FarRehearsal(tmp_path / "rehearsal", experiment)
    for person in rehearsal.people:
        person.known = Hesitating(person.known)
    with rehearsal:
        rehearsal.everybody_suffers(BAD)
        yield undisturbed, rehearsal

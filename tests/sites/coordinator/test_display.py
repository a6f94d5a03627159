"""A run is shown site by site, or in lines."""

from __future__ import annotations

import time
from dataclasses import replace

from rich.console import Console

from fedactive.sites.coordinator.display import make_table, open_display
from fedactive.sites.coordinator.status import FINISHED, Phase, Status


def test_the_status_of_a_run_is_shown_site_by_site():
    sites = {"north": {"online": True, "labelled_in_all": 7, "pending": 2, "al_round": 1}, "south": {}}
    sites["[/b] east"] = {}  # no markup, whatever it looks like
    sites["west"] = {"dismissed": True, "online": False}
    sites["north"]["last_seen"] = time.time() + 3600  # the clock was set back since
    status = Status(Phase("labelling", 1), sites, 0.5, [{"what": "south sent nonsense"}])
    console = Console(width=100)
    with console.capture() as shown:
        console.print(make_table(status))
    for words in (
        "north",
        "online",
        "away",
        "dismissed",
        "[/b] east",
        "never",
        " 0 s ago",
        "50.00%",
        "dropped: south sent nonsense",
        "AL round 1: people are labelling",
    ):
        assert words in shown.get()


def test_without_a_terminal_lines_say_what_happens_and_why_it_does_not(capsys):
    status = Status(Phase("waiting", sites=("south",)), {"north": {"labelled_in_all": 7}})
    with open_display() as show:
        for _ in range(3):
            show(status)
            status.dropped.append({"time": 1.0, "what": "south has other classes"})
        show(replace(status, phase=FINISHED))
    assert capsys.readouterr().out.splitlines() == [
        "waiting for south; labelled: north 7",
        "dropped: south has other classes",
        "finished; labelled: north 7",
    ]

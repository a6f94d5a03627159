"""Who is told, of what, and how often."""

from __future__ import annotations

import http.server
import json
import threading
import time

import pytest

from fedactive.sites.coordinator.alerts import Watch, is_stalled
from fedactive.sites.coordinator.status import Phase, Status, write_status

RUN = "a-run"


@pytest.fixture
def hook():
    """A webhook that keeps what it is sent."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.got = got
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def write(coordinator):
    """Write how the run is."""
    folder = coordinator.run_folder_of(RUN)
    folder.mkdir(parents=True)
    coordinator.want(RUN, True)

    def now(sites, dropped=()):
        write_status(folder, Status(Phase("training", 1, 2, 4), sites, dropped=list(dropped)))

    return now


def test_each_event_is_told_once_in_the_log_and_by_webhook(coordinator, write, hook, caplog):
    watch = Watch(coordinator, 60.0, f"http://127.0.0.1:{hook.server_port}/hook")
    watch.begun -= 3600
    old = {"time": watch.begun - 1, "what": "south sent nonsense", "kind": "dropped"}
    new = {"time": time.time(), "what": "the model of AL round 1 fell", "kind": "collapse"}
    away, here = {"online": False, "last_seen": time.time() - 90}, {"online": True, "last_seen": time.time()}
    for _ in range(3):
        write({"north": away, "south": here}, [old, new])
        watch.look()
    write({"north": here, "south": here}, [old, new])
    watch.look()
    assert [(told["kind"], told["run"]) for told in hook.got] == [
        ("collapse", RUN),
        ("stalled", RUN),
        ("recovered", RUN),
    ]
    assert hook.got[1]["text"] == (
        f"fedactive: {RUN}: north has not answered for 1 minutes (AL round 1: FL round 2 of 4)"
    )
    assert caplog.text.count("alert (") == 3


def test_what_lasts_is_told_once_and_again_when_it_comes_back(coordinator, write, caplog):
    watch = Watch(coordinator, 60.0)
    watch.begun -= 3600
    then, dropped = watch.begun, []
    for seconds, what in [
        (10, "south has no labels yet (AL round 1, FL round 1)"),
        (40, "south has no labels yet (AL round 1, FL round 1)"),
        (70, "south has no labels yet (AL round 1, FL round 2)"),
        (75, "north has no labels yet (AL round 1, FL round 2)"),
        (80, "south failed, see the log of the site (query)"),
        (131, "south has no labels yet (AL round 1, FL round 9)"),  # after more than a minute
    ]:
        dropped.append({"time": then + seconds, "what": what, "kind": "dropped"})
        write({}, dropped)
        watch.look()
    told = [line.split(f"{RUN}: ")[1] for line in caplog.text.splitlines() if "alert (dropped)" in line]
    assert told == [dropped[i]["what"] for i in (0, 3, 4, 5)]


def test_a_webhook_that_does_not_answer_stops_nothing(coordinator, write, caplog):
    watch = Watch(coordinator, 60.0, "http://127.0.0.1:1/hook")
    write({}, [{"time": time.time() + 1, "what": "south sent nonsense"}])
    watch.look()
    assert "the alert did not reach the webhook: ConnectError" in caplog.text


@pytest.mark.parametrize(
    ("site", "stalled"),
    [
        ({"online": True, "asked": -100, "last_seen": -90}, False),  # it has answered
        ({"online": True, "asked": -100, "last_seen": -120}, True),
        ({"online": True, "asked": -50, "last_seen": -120}, False),  # it has time
        ({"online": False, "asked": -200, "last_seen": -100}, True),
        ({"online": False, "asked": -200, "last_seen": -100, "dismissed": True}, False),
        ({}, True),  # it was never there
    ],
)
def test_a_site_is_stalled_that_is_away_or_owes_an_answer(site, stalled):
    now = time.time()
    at = {key: now + value if key in ("asked", "last_seen") else value for key, value in site.items()}
    assert is_stalled(at, 60.0, now - 1000) == stalled
    assert not is_stalled(at, 60.0, now - 10)  # just started: nobody had a chance

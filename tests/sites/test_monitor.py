"""/health and /metrics, over a real socket, of a real coordinator and of a site."""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import closing
from itertools import product

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedactive import __version__
from fedactive.errors import ConfigurationError
from fedactive.sites.coordinator import metrics as of_coordinator
from fedactive.sites.coordinator.status import Phase, Status, write_status
from fedactive.sites.flower import processes
from fedactive.sites.flower.supernode import CONNECTED, NOT_ADMITTED, SuperNode
from fedactive.sites.monitor import Monitor, Reading, exposition, single
from fedactive.sites.site import metrics as of_site
from support.folders import admit

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get")
PATHS = (
    "/health",
    "/metrics",
    "/health/",
    "/metrics/%00",
    "/..%2f",
    "/%FF",
    "//",
    "/metrics?a=%0d%0a",
    "/" + "a" * 9999,
)


@pytest.fixture
def ask():
    """Ask a monitor that is made for these functions."""
    made = []

    def serve(troubles, metrics):
        address = f"127.0.0.1:{processes.free_port()}"
        monitor = Monitor(address, troubles, metrics)
        monitor.start()
        made.append(monitor)
        return lambda path: httpx.get(f"http://{address}{path}", timeout=30)

    yield serve
    for monitor in made:
        monitor.stop()


def test_the_format_is_that_of_prometheus():
    text = exposition(
        [Reading("a", "What.", [({"x": 'q"\\\n'}, 1.5), ({}, 2)]), single("b", "B.", float("nan"))]
    )
    assert text.splitlines() == [
        "# HELP a What.",
        "# TYPE a gauge",
        'a{x="q\\"\\\\\\n"} 1.5',
        "a 2",
        "# HELP b B.",
        "# TYPE b gauge",
        "b nan",
    ]
    a, b = text_string_to_metric_families(text)
    assert [(sample.labels, sample.value) for sample in a.samples] == [({"x": 'q"\\\n'}, 1.5), ({}, 2)]
    assert math.isnan(b.samples[0].value)


def test_a_coordinator_says_how_it_and_its_runs_are(coordinator, ask):
    admit(coordinator, 2)
    get = ask(lambda: of_coordinator.troubles(coordinator), lambda: of_coordinator.metrics(coordinator))
    assert get("/health").status_code == 503
    assert get("/health").json()["troubles"] == ["the SuperLink is not there, and is being started"]
    (coordinator.folder / "serving.json").write_text(json.dumps({"address": "localhost:1", "pid": 1}))
    assert get("/health").json() == {"status": "ok", "troubles": [], "fedactive": __version__}
    folder = coordinator.run_folder_of("a-run")
    folder.mkdir(parents=True)
    sites = {"north": {"online": True, "labelled_in_all": 7, "sent": 10}, "south": {"online": False}}
    write_status(folder, Status(Phase("training", 2, 3, 4), sites, 0.5, dropped_in_all=1))
    assert "fedactive_runs 0.0" in get("/metrics").text  # it is not wanted
    coordinator.want("a-run", True)
    answer = get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in (
        f'fedactive_info{{version="{__version__}"}} 1',
        "fedactive_up 1.0",
        "fedactive_sites_admitted 2.0",
        'fedactive_al_round{run="a-run"} 2.0',
        'fedactive_accuracy{run="a-run"} 0.5',
        'fedactive_dropped_total{run="a-run"} 1.0',
        'fedactive_site_online{run="a-run",site="south"} 0.0',
        'fedactive_site_labels{run="a-run",site="north"} 7.0',
        'fedactive_site_sent_bytes{run="a-run",site="north"} 10.0',
    ):
        assert line in answer.text.splitlines()
    read = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert read["fedactive_dropped"].type == "counter"
    assert {sample.labels["site"] for sample in read["fedactive_site_online"].samples} == {"north", "south"}


def test_a_site_says_whether_it_is_connected_and_no_names(site, ask):
    supernode = SuperNode(site.folder, "localhost:1", lambda request: None)
    with closing(site.store()) as store:
        store.annotators.add("Ada Lovelace")
        get = ask(lambda: of_site.troubles(supernode), lambda: of_site.metrics(store, supernode, range(5)))
        assert get("/health").json()["troubles"] == ["the site is connecting"]
        supernode.tell(NOT_ADMITTED)
        assert "has not admitted this site" in get("/health").json()["troubles"][0]
        supernode.tell(CONNECTED)
        assert get("/health").status_code == 200
        text = get("/metrics").text
        assert {"fedactive_up 1.0", "fedactive_images 5.0", "fedactive_labels 0.0"} <= set(text.splitlines())
        assert "Ada" not in text


def test_an_address_is_checked_before_anything_is_served():
    with pytest.raises(ConfigurationError, match="address: '9101' was given"):
        Monitor("9101", list, list)


def test_requests_from_its_routes(ask):
    get = ask(list, list)
    with httpx.Client(base_url=str(get("/health").url.copy_with(path="/"))) as client:
        statuses = Counter(
            client.request(method, path).status_code for method, path in product(METHODS, PATHS)
        )
    assert set(statuses) <= {200, 307, 400, 404, 405}, statuses
    assert statuses[200] >= 2, statuses


def test_it_answers_nothing_else(ask):
    get = ask(list, list)
    assert get("/").status_code == get("/docs").status_code == 404

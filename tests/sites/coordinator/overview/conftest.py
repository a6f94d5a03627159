"""A coordinator with a run, and its page on a real socket."""

from __future__ import annotations

import threading

import httpx
import pytest

from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.member import Member
from fedactive.sites.coordinator.overview.app import create_app
from fedactive.sites.coordinator.overview.token import make_token
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.page.server import PageServer
from support.loopback import loopback

NAMES = ["north", "south", "<b>west</b>"]
PLAN = """
dataset = "digits"
strategy = "random"
rounds = 2
fl_rounds = 6
local_epochs = 1
augment = "none"
model = "mlp"
lr = 0.1  # so that no two FL rounds end alike
device = "cpu"

[field]
clip = 5.0
noise = 0.01
"""


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """A coordinator whose run has ended, after one bad reply."""
    folder = tmp_path_factory.mktemp("hub")
    coordinator = Coordinator.init(folder / "hub", "coordinator.example.org:9443")
    coordinator.write_sites([Member(name, k, f"key {k}") for k, name in enumerate(NAMES)])
    plan = coordinator.keep_plan(PLAN)
    coordinator.begin(plan)
    transport = loopback(plan.experiment, folder)
    spoilt = []

    def spoil(k, request, reply):
        if request.kind == "train" and k == 1 and not spoilt:
            spoilt.append(k)
            reply.weights["head.bias"][0] = float("nan")
        return reply

    transport.tamper = spoil
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correspondence, "FIRST_PAUSE", 0.01)
        result = run_plan(plan, transport, NAMES)
    return coordinator, result


@pytest.fixture
def token(hub):
    return make_token(hub[0].folder)


@pytest.fixture
def app(hub):
    return create_app(hub[0], 1800.0)


@pytest.fixture
def address(app):
    """Where the page is served."""
    page = PageServer(app, "127.0.0.1", 0)
    serving = threading.Thread(target=page.run)
    serving.start()
    yield page.address
    page.stop()
    serving.join()


@pytest.fixture
def client(address):
    with httpx.Client(base_url=address, follow_redirects=True, timeout=30) as client:
        yield client


@pytest.fixture
def inside(client, token):
    assert client.post("/sign-in", data={"token": token}).url.path == "/"
    return client

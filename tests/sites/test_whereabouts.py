"""A coordinator moves, and its sites follow: over real TLS, to the same authority only."""

from __future__ import annotations

import threading

import pytest
from typer.testing import CliRunner

from fedactive import __version__
from fedactive.cli.coordinator import app as coordinator_app
from fedactive.cli.site import app as site_app
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.flower import processes
from fedactive.sites.flower.gate import Gate
from fedactive.sites.flower.supernode import SuperNode
from fedactive.sites.invitation import Invitation, parse_address
from fedactive.sites.rehearsal import wait_for
from fedactive.sites.site.whereabouts import Whereabouts, ask_about


@pytest.fixture
def serve():
    """Open the door of a coordinator, as `serve` does."""
    gates = []

    def open_door(coordinator, announced=""):
        ports = [parse_address(one)[1] for one in (coordinator.address, *coordinator.former())]
        gate = Gate(
            "127.0.0.1:1", coordinator.folder, "127.0.0.1", ports, list, announced or coordinator.address
        )
        thread = threading.Thread(target=gate.run)
        thread.start()
        wait_for(lambda: gate.server.started, "the gate")
        gates.append((gate, thread))

    def close():
        while gates:
            gate, thread = gates.pop()
            gate.server.should_exit = True
            thread.join()

    open_door.close = close
    yield open_door
    close()


@pytest.fixture
def hub(tmp_path):
    return Coordinator.init(tmp_path / "hub", f"localhost:{processes.free_port()}")


@pytest.fixture
def joined(hub, site):
    site.join(hub.folder / "invitation.toml")
    return Whereabouts(site.folder, SuperNode(site.folder, hub.address, lambda request: None))


def test_a_site_follows_a_coordinator_that_moves(hub, site, joined, serve):
    old, new = hub.address, f"127.0.0.1:{processes.free_port()}"
    serve(hub)
    joined.look()
    assert joined.supernode.coordinator == old
    serve.close()
    hub.move(new)
    serve(Coordinator(hub.folder))  # at both
    joined.look()
    assert joined.supernode.coordinator == new
    assert Invitation.read(site.folder / "invitation.toml").address == new
    hub.move(old)  # and back
    assert hub.former() == [new]
    hub.renew()
    assert ask_about(new, site.folder / "ca.pem")["address"] == new


def test_a_site_does_not_go_where_nobody_is(hub, joined, serve):
    old = hub.address
    serve(hub, announced="127.0.0.1:9")
    joined.look()
    assert joined.supernode.coordinator == old


def test_a_coordinator_with_another_authority_leads_nobody_away(hub, site, joined, serve, tmp_path):
    stranger = Coordinator.init(tmp_path / "stranger", hub.address)
    stranger.move(f"127.0.0.1:{processes.free_port()}")
    serve(stranger)
    assert ask_about(hub.address, site.folder / "ca.pem") is None
    joined.look()
    assert joined.supernode.coordinator == hub.address


def test_versions_that_meet_are_named_once(hub, joined, serve, caplog):
    serve(hub)
    joined.look()
    assert not caplog.records
    for _ in range(2):
        joined.note_version("9.9.9")
    both = f"the coordinator has fedactive 9.9.9, this site {__version__}: install the same"
    assert [record.getMessage() for record in caplog.records] == [both]


def test_the_commands(hub, site):
    site.join(hub.folder / "invitation.toml")
    old, run = hub.address, CliRunner().invoke
    moved = run(coordinator_app, ["move", str(hub.folder), "--address", "new.example.org:9443"])
    assert (moved.exit_code, old in moved.stdout) == (0, True)
    assert Coordinator(hub.folder).address == "new.example.org:9443"
    done = run(site_app, ["move", str(site.folder), "new.example.org:9443"])
    assert "is looked for at new.example.org:9443" in done.stdout
    assert Invitation.read(site.folder / "invitation.toml").address == "new.example.org:9443"
    wrong = run(site_app, ["move", str(site.folder), "new.example.org"])
    assert "address: 'new.example.org' was given, allowed is host:port" in str(wrong.exception)

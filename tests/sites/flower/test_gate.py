"""The gate on a real socket, and people who hold on to it."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import ExitStack, suppress

import httpx
import pytest

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.flower import gate, processes
from fedactive.sites.rehearsal import wait_for

MOST = 5
CALL = b"POST /v1/fleet/pull-messages HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture
def door(tmp_path, monkeypatch):
    """Its port, and what trusts its certificate."""
    monkeypatch.setattr(gate, "MOST_CONNECTIONS", MOST)
    monkeypatch.setattr(gate, "SECONDS_TO_ASK", 2.0)
    folder = Coordinator.init(tmp_path / "coordinator", "localhost:1").folder
    port = processes.free_port()
    made = gate.Gate("127.0.0.1:1", folder, "127.0.0.1", port, list)
    serving = threading.Thread(target=made.run)
    serving.start()
    yield port, ssl.create_default_context(cafile=str(folder / "ca.pem"))
    made.server.should_exit = True
    serving.join()


# What they send at first, and then again and again.
HOLDING = {
    "silent": (b"", b""),
    "headers without end": (CALL, b"x"),
    "a second call without end": (CALL + b"\r\n" + CALL, b"x"),
    "a body without end": (CALL + b"content-length: 1000000\r\n\r\n", b"x"),
}


@pytest.mark.parametrize(("first", "then"), HOLDING.values(), ids=HOLDING)
def test_who_holds_connections_and_asks_nothing_keeps_nobody_out(door, first, then):
    port, trusted = door

    def status():
        return httpx.post(f"https://localhost:{port}/v1/fleet/pull-messages", verify=trusted).status_code

    def nobody_is_kept_out():
        for connection in held:
            with suppress(OSError):  # hung up
                connection.sendall(then)
        return status() == gate.REFUSED

    wait_for(lambda: listens(port), "the gate")
    assert status() == gate.REFUSED
    with ExitStack() as stack:
        held = [
            stack.enter_context(
                trusted.wrap_socket(
                    socket.create_connection(("localhost", port)), server_hostname="localhost"
                )
            )
            for _ in range(MOST)
        ]
        for connection in held:
            connection.sendall(first)
        assert status() == 503
        wait_for(nobody_is_kept_out, "a place at the gate", 20)


def listens(port):
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0

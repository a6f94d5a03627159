"""The gate on a real socket, and people who hold on to it."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import threading
from contextlib import ExitStack, suppress

import httpx
import pytest
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.flower import gate, processes
from fedactive.sites.flower.gate import LARGEST_CALL, REFUSED, make_gate
from fedactive.sites.rehearsal import wait_for
from support.folders import admit, make_coordinator

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


# ------------------------------------------------------------------------------------- what it passes on


@pytest.fixture
def coordinator(tmp_path):
    return make_coordinator(tmp_path)


def bearing(key):
    """The header with which a SuperNode shows its key."""
    return {FLEET_HTTP_PUBLIC_KEY_HEADER: base64.b64encode(key.encode()).decode()}


async def status_of(app, path, content=b"", **headers):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://localhost") as client:
        return (await client.post(path, content=content, headers=headers)).status_code


def answer_of(*arguments, **headers):
    return asyncio.run(status_of(*arguments, **headers))


async def endless():
    yield b"x"


def test_the_gate_passes_on_what_sites_say_and_has_its_limits(coordinator):
    app = make_gate("127.0.0.1:1", coordinator.folder / "ca.pem", lambda: ["key"])  # where nobody is
    site = bearing("key")
    assert answer_of(app, "/v1/control/list-nodes", **site) == 404
    assert answer_of(app, "/v1/fleet/pull-messages", b"x", **site) == 503
    assert answer_of(app, "/v1/fleet/push-object", endless(), **site) == 413
    assert answer_of(app, "/v1/fleet/push-object", **{"content-length": str(LARGEST_CALL + 1)}, **site) == 413


def test_the_gate_reads_nothing_of_what_strangers_say(coordinator):
    async def unread():
        raise AssertionError("it was read")
        yield

    admit(coordinator, 2)
    app = make_gate("127.0.0.1:1", coordinator.folder / "ca.pem", coordinator.keys)
    assert answer_of(app, "/v1/fleet/push-object", unread()) == REFUSED
    assert answer_of(app, "/v1/fleet/push-object", unread(), **bearing("key 2")) == REFUSED
    assert answer_of(app, "/v1/fleet/push-object", b"x", **bearing("key 1")) == 503
    admit(coordinator, 3, dismissed=(1,))  # holds at once
    assert answer_of(app, "/v1/fleet/push-object", unread(), **bearing("key 1")) == REFUSED
    assert answer_of(app, "/v1/fleet/push-object", b"x", **bearing("key 2")) == 503


def asked_behind_the_gate(coordinator, call):
    """The first lines of what comes through to where the SuperLink would be."""
    lines = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(coordinator.folder / "server.pem", coordinator.folder / "server.key")

    async def answer(reader, writer):
        lines.append((await reader.readline()).decode().strip())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def listen():
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
            address = f"localhost:{server.sockets[0].getsockname()[1]}"
            app = make_gate(address, coordinator.folder / "ca.pem", lambda: ["key"])
            async with app.router.lifespan_context(app):
                await call(app)

    asyncio.run(listen())
    return lines


@pytest.mark.parametrize("host", ["localhost", "a/v1/control/list-nodes?", "a/v1/control/list-nodes#"])
def test_no_header_leads_around_the_gate(coordinator, host):
    async def call(app):
        await status_of(app, "/v1/fleet/pull-messages", b"x", host=host, **bearing("key"))

    assert asked_behind_the_gate(coordinator, call) == ["POST /v1/fleet/pull-messages HTTP/1.1"]


def test_a_site_that_hangs_up_in_the_middle_is_no_error(coordinator):
    async def hang_up():
        return {"type": "http.disconnect"}

    async def nobody_listens(message):
        pass

    headers = {"content-length": "1000", **bearing("key")}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/fleet/push-object",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asked_behind_the_gate(coordinator, lambda app: app(scope, hang_up, nobody_listens))

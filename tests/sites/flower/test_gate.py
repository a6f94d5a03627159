"""What the gate passes on, what it refuses, and how much it takes at once."""

from __future__ import annotations

import asyncio
import ssl
import threading

import httpx
import pytest

from fedactive.sites.coordinator.member import Member
from fedactive.sites.flower import gate, processes
from fedactive.sites.flower.gate import LARGEST_CALL, REFUSED, make_gate
from fedactive.sites.rehearsal import wait_for
from support.folders import make_coordinator
from support.site_key import SiteKey

NORTH, SOUTH, STRANGER = (SiteKey() for _ in range(3))
NOWHERE = "127.0.0.1:1"
PUSH = "/v1/fleet/push-object"


@pytest.fixture
def coordinator(tmp_path):
    made = make_coordinator(tmp_path)
    admit(made, NORTH, SOUTH)
    return made


def admit(coordinator, *keys, dismissed=()):
    members = [Member(f"site {k}", k, key.public, key in dismissed) for k, key in enumerate(keys)]
    coordinator.write_sites(members)


def gate_of(coordinator, superlink=NOWHERE):
    return make_gate(superlink, coordinator.folder / "ca.pem", coordinator.keys)


async def status_of(app, path, content=b"", **headers):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://localhost") as client:
        return (await client.post(path, content=content, headers=headers)).status_code


def answer_of(*arguments, **headers):
    return asyncio.run(status_of(*arguments, **headers))


async def unread():
    raise AssertionError("it was read")
    yield


def test_the_gate_passes_on_what_sites_say_and_has_its_limits(coordinator):
    app = gate_of(coordinator)
    assert answer_of(app, "/v1/control/list-nodes", **NORTH.sign()) == 404
    assert answer_of(app, "/v1/fleet/pull-messages", b"x", **NORTH.sign()) == 503  # where nobody is
    assert answer_of(app, PUSH, unread(), **NORTH.sign()) == 411
    assert answer_of(app, PUSH, **{"content-length": str(LARGEST_CALL + 1)}, **NORTH.sign()) == 413
    assert answer_of(app, PUSH, b"x", **NORTH.sign(seconds_ago=3600)) == 401


def test_the_gate_reads_nothing_of_what_strangers_say(coordinator):
    app = gate_of(coordinator)
    assert answer_of(app, PUSH, unread()) == REFUSED
    assert answer_of(app, PUSH, unread(), **STRANGER.sign()) == REFUSED
    assert answer_of(app, PUSH, unread(), **STRANGER.sign(as_if=NORTH)) == REFUSED
    assert answer_of(app, PUSH, b"x", **NORTH.sign()) == 503
    captured = SOUTH.sign()
    assert answer_of(app, PUSH, b"x", **captured) == 503
    assert answer_of(app, PUSH, unread(), **captured) == REFUSED
    admit(coordinator, NORTH, STRANGER, dismissed=(NORTH,))  # holds at once
    assert answer_of(app, PUSH, unread(), **NORTH.sign()) == REFUSED
    assert answer_of(app, PUSH, b"x", **STRANGER.sign()) == 503


@pytest.mark.parametrize(
    "path", ["%00", "a%00b", "a%0d%0ab: c", "%0a", "caf%C3%A9", "%FF", "a%20b", "..", "A", "a;b", "a%3Fb", ""]
)
def test_odd_paths_are_not_found(coordinator, path):
    assert 400 <= answer_of(gate_of(coordinator), f"/v1/fleet/{path}", b"x", **NORTH.sign()) < 500


@pytest.mark.parametrize("value", ["caf\u00e9", "\x00", "a\x7fb", "\u20ac"])
def test_odd_headers_are_refused(coordinator, value):
    odd = {b"flwr-component-name": value.encode()}
    headers = {name.encode(): text.encode() for name, text in NORTH.sign().items()}
    scope = {
        "type": "http",
        "method": "POST",
        "path": PUSH,
        "query_string": b"",
        "headers": [*(headers | odd).items(), (b"content-length", b"1")],
    }
    said = []

    async def send(message):
        said.append(message)

    asyncio.run(gate_of(coordinator)(scope, None, send))
    assert said[0]["status"] == 400


# ------------------------------------------------------------------------- with a SuperLink behind it


class Behind:
    """Stands where the SuperLink would: it takes in whole calls, and answers them when it is told to."""

    def __init__(self, coordinator):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(coordinator.folder / "server.pem", coordinator.folder / "server.key")
        self.lines, self.bytes_there = [], 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def take(self, reader, writer):
        self.lines.append((await reader.readline()).decode().strip())
        length = 0
        while line := (await reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.bytes_there += len(await reader.readexactly(length))
        await self.answers.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


def behind_the_gate(coordinator, call):
    """Call `call(app, behind)` with a gate and something behind it that answers."""

    async def listen():
        behind = Behind(coordinator)
        async with await asyncio.start_server(behind.take, "127.0.0.1", 0, ssl=behind.context) as server:
            app = gate_of(coordinator, f"localhost:{server.sockets[0].getsockname()[1]}")
            async with app.router.lifespan_context(app):
                await call(app, behind)
        return behind

    return asyncio.run(listen())


@pytest.mark.parametrize("host", ["localhost", "a/v1/control/list-nodes?", "a/v1/control/list-nodes#"])
def test_no_header_leads_around_the_gate(coordinator, host):
    async def call(app, _):
        assert await status_of(app, "/v1/fleet/pull-messages", b"x", host=host, **NORTH.sign()) == 200

    lines = behind_the_gate(coordinator, call).lines
    assert lines == ["POST /v1/fleet/pull-messages HTTP/1.1"]


def test_a_site_that_hangs_up_in_the_middle_is_no_error(coordinator):
    async def hang_up():
        return {"type": "http.disconnect"}

    async def nobody_listens(message):
        pass

    headers = {"content-length": "1000", **NORTH.sign()}
    scope = {
        "type": "http",
        "method": "POST",
        "path": PUSH,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    behind_the_gate(coordinator, lambda app, _: app(scope, hang_up, nobody_listens))


def test_only_so_many_bytes_are_on_their_way_at_once(coordinator, monkeypatch):
    """The others wait, and come through when there is room; who waits too long is told to come again."""
    monkeypatch.setattr(gate, "MOST_OF_A_SITE", 2000)
    monkeypatch.setattr(gate, "MOST_IN_ALL", 3000)

    async def push(app, key):
        return await status_of(app, PUSH, bytes(1000), **key.sign())

    async def call(app, behind):
        behind.answers.clear()
        calls = [asyncio.create_task(push(app, key)) for key in (NORTH, NORTH, NORTH, NORTH, SOUTH, SOUTH)]
        await asyncio.sleep(1)
        assert behind.bytes_there == 3000  # two of the one, one of the other
        monkeypatch.setattr(gate, "SECONDS_FOR_ROOM", 0.1)
        assert await push(app, SOUTH) == 503
        behind.answers.set()
        assert await asyncio.gather(*calls) == [200] * 6
        assert await push(app, SOUTH) == 200

    assert behind_the_gate(coordinator, call).bytes_there == 7000


# ----------------------------------------------------------------------------------------- on a socket


@pytest.fixture
def door(coordinator):
    """A gate that serves, and a client that trusts it."""
    port = processes.free_port()
    made = gate.Gate(NOWHERE, coordinator.folder, "127.0.0.1", [port], coordinator.keys)
    serving = threading.Thread(target=made.run)
    serving.start()
    wait_for(lambda: made.server.started, "the gate")
    trusted = ssl.create_default_context(cafile=str(coordinator.folder / "ca.pem"))
    # The certificate is for the host of the invitation.
    trusted.check_hostname = False
    with httpx.Client(verify=trusted, base_url=f"https://127.0.0.1:{port}") as client:
        yield client
    made.server.should_exit = True
    serving.join()


def test_bodies_of_strangers_are_cut_off(door):
    def endless():
        while True:
            yield bytes(2**16)

    headers = {"content-length": str(2**40)} | STRANGER.sign(as_if=NORTH)
    assert door.post(PUSH, content=endless(), headers=headers).status_code == REFUSED
    assert door.post(PUSH, headers=NORTH.sign()).status_code == 503

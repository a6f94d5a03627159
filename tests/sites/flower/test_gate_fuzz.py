"""Two thousand malformed calls to a gate on a real socket: no 5xx, no traceback, no growth of memory."""

from __future__ import annotations

import random
import socket
import ssl
import threading
from collections import Counter

import pytest
import uvicorn

from fedactive.sites.coordinator.member import Member
from fedactive.sites.flower.gate import Gate
from fedactive.sites.rehearsal import wait_for
from fedactive.sites.sockets import listen
from support.folders import make_coordinator
from support.site_key import SiteKey
from support.unharmed import unharmed

NORTH, STRANGER = SiteKey(), SiteKey()
MANY = 2000


async def superlink(scope, receive, send):
    """Takes whatever the gate passes on."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def door(tmp_path):
    """A gate with a server behind it; how to open a connection to it."""
    coordinator = make_coordinator(tmp_path)
    coordinator.write_sites([Member("north", 1, NORTH.public, False)])
    files = {
        "ssl_certfile": coordinator.folder / "server.pem",
        "ssl_keyfile": coordinator.folder / "server.key",
    }
    config = uvicorn.Config(superlink, lifespan="off", ws="none", log_level="warning", **files)
    behind, listening = uvicorn.Server(config), listen("127.0.0.1", 0)
    gate = Gate(
        f"localhost:{listening.getsockname()[1]}", coordinator.folder, "127.0.0.1", [0], coordinator.keys
    )
    threads = [
        threading.Thread(target=behind.run, kwargs={"sockets": [listening]}),
        threading.Thread(target=gate.run),
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: behind.started and gate.server.started, "the gate")
    trusted = ssl.create_default_context(cafile=str(coordinator.folder / "ca.pem"))
    trusted.check_hostname = False
    yield lambda: trusted.wrap_socket(socket.create_connection(gate.sockets[0].getsockname(), timeout=10))
    behind.should_exit = gate.server.should_exit = True
    for thread in threads:
        thread.join()


PATHS = ["/v1/fleet/push-object", "/v1/fleet/pull-messages"] * 3 + [
    *("/", "/v1/fleet/", "/v1/fleet", "/v1/control/list-nodes", "/v1/fleet/../control/start-run", "*"),
    *(
        "/v1/fleet/%00",
        "/v1/fleet/%0d%0aa:b",
        "/v1/fleet/%FF%FE",
        "/v1/fleet/a/b",
        "/v1//fleet/x",
        "/v1/fleet/%2e%2e",
    ),
    *(
        "http://localhost/v1/fleet/push-object",
        "//v1/fleet/x",
        "/v1/fleet/push-object?a=%00",
        "/" + "a" * 3000,
    ),
]
METHODS = ["POST"] * 8 + ["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "post"]
ODD = [
    "",
    "\x00",
    "\x7f",
    "é",
    "€",
    "a" * 5000,
    "-1",
    "1e9",
    "0x10",
    "99999999999999999999",
    "chunked",
    "gzip",
]
NAMES = ["content-length", "transfer-encoding", "host", "content-type", "flwr-timestamp", "flwr-signature"]
NAMES += [
    "flwr-public-key",
    "x-flwr-client",
    "connection",
    "expect",
    "upgrade",
    "te",
    "cookie",
    "\x00",
    "a b",
]


def malformed_call(rng: random.Random) -> bytes:
    body = rng.randbytes(rng.choice([0, 0, 1, 100, 20_000]))
    headers = {"host": "localhost", "content-length": str(len(body))}
    headers |= rng.choice([NORTH.sign, STRANGER.sign, lambda: STRANGER.sign(as_if=NORTH), dict])()
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        headers[rng.choice(NAMES)] = rng.choice(ODD)
    for _ in range(rng.choice([0, 0, 1])):
        headers.pop(rng.choice(list(headers)))
    version = rng.choice(["HTTP/1.1"] * 6 + ["HTTP/1.0", "HTTP/9.9", "HTTP", ""])
    lines = [
        f"{rng.choice(METHODS)} {rng.choice(PATHS)} {version}",
        *(f"{n}: {v}" for n, v in headers.items()),
    ]
    call = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    if rng.random() < 0.1:
        at = rng.randrange(len(call))
        call = call[:at] + rng.randbytes(5) + call[at + 5 :]
    return call


def status_of(connection: socket.socket, call: bytes) -> int:
    """The status of the answer; 0 if there is none, since the call never ends or the gate hangs up."""
    try:
        connection.sendall(call)
        connection.settimeout(0.2)
        return int(connection.recv(2000).split(b" ")[1])
    except (OSError, IndexError):
        return 0


def test_malformed_calls(door):
    rng = random.Random(1)
    with door() as connection:
        status_of(connection, malformed_call(rng))
    statuses = Counter()
    with unharmed():
        for _ in range(MANY):
            with door() as connection:
                statuses[status_of(connection, malformed_call(rng))] += 1
    assert not [status for status in statuses if status >= 500]
    assert statuses[200] > 20  # those that were signed and whole
    assert sum(count for status, count in statuses.items() if 400 <= status < 500) > MANY / 2

"""Thousands of malformed requests to a page on a real socket: no 5xx, no traceback, no growth of memory."""

from __future__ import annotations

import random
import socket
from collections import Counter
from urllib.parse import urlsplit

import pytest

from support.described import REQUESTS, require_no_failure, send_described
from support.unharmed import unharmed


@pytest.fixture
def quiet():
    with unharmed():
        yield


@pytest.fixture
def work(site):
    """A round that wants images of everybody."""
    site.store.rounds.open("run", 1, list(range(40)), "random", None, overlap=2)
    return site


@pytest.mark.parametrize("role", ["lead", "annotator", "stranger"])
def test_requests_from_its_own_description(work, signed_in, quiet, role):
    client = signed_in("ada", lead=role == "lead")
    if role == "stranger":
        client.cookies.clear()
    description = work.server.server.config.app.openapi()  # which the page does not serve
    statuses = send_described(client, description, REQUESTS // 50)
    require_no_failure(statuses, REQUESTS // 5)
    assert statuses[401 if role == "stranger" else 200] > 20, statuses


METHODS = ["GET"] * 4 + ["POST"] * 4 + ["PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "get"]
PATHS = ["/", "/sign-in", "/api/next", "/api/answer", "/api/guess/1", "/images/1", "/history", "/overview"]
PATHS += [
    "/images/-1",
    "/images/99999999999999999999",
    "/images/%00",
    "/images/../labels.sqlite",
    "/static/../app.py",
]
PATHS += [
    "/api/next?queue=x&count=-1",
    "/api/next?count=%FF",
    "/%0d%0aa:b",
    "//",
    "/static/%2e%2e/%2e%2e/etc/passwd",
    "*",
]
ODD = ["", "\x00", "é", "€", "a" * 5000, "-1", "99999999999999999999", "chunked", "null", "a=b; " * 200, '"']
NAMES = [
    "cookie",
    "origin",
    "host",
    "content-length",
    "content-type",
    "x-csrf-token",
    "transfer-encoding",
    "expect",
]
NAMES += [
    "x-forwarded-for",
    "if-modified-since",
    "range",
    "accept",
    "sec-fetch-site",
    "upgrade",
    "\x00",
    "a b",
]
BODIES = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"[" * 3000,
    b'{"sample": 1e999}',
    b'{"sample": true, "label": 1}',
    b"\xff\xfe",
    b"a=b&" * 50,
]


def malformed(rng, cookie, csrf):
    body = rng.choice(BODIES)
    headers = {"host": "localhost", "content-length": str(len(body)), "content-type": "application/json"}
    headers |= rng.choice([{}, {"cookie": cookie}, {"cookie": cookie, "x-csrf-token": csrf}])
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        headers[rng.choice(NAMES)] = rng.choice(ODD)
    lines = [
        f"{rng.choice(METHODS)} {rng.choice(PATHS)} {rng.choice(['HTTP/1.1'] * 5 + ['HTTP/1.0', 'HTTP/9.9', ''])}"
    ]
    call = "\r\n".join([*lines, *(f"{n}: {v}" for n, v in headers.items())]).encode() + b"\r\n\r\n" + body
    if rng.random() < 0.1:
        at = rng.randrange(len(call))
        call = call[:at] + rng.randbytes(5) + call[at + 5 :]
    return call


def test_malformed_requests(work, signed_in, quiet):
    client, rng, statuses = signed_in("ada", lead=True), random.Random(1), Counter()
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    address = urlsplit(work.address)
    for _ in range(REQUESTS):
        with socket.create_connection((address.hostname, address.port), timeout=5) as connection:
            connection.sendall(malformed(rng, cookie, client.headers["X-CSRF-Token"]))
            connection.settimeout(0.2)
            try:
                statuses[int(connection.recv(2000).split(b" ")[1])] += 1
            except (OSError, IndexError):
                statuses[0] += 1
    assert not [status for status in statuses if status >= 500]
    assert statuses[200] > 20
    assert sum(count for status, count in statuses.items() if 400 <= status < 500) > REQUESTS / 4
    assert client.get("/api/next").status_code == 200

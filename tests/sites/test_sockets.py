"""A server on a real socket, and people who hold on to it."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection

import pytest
import uvicorn

from fedactive.sites import sockets
from fedactive.sites.rehearsal import wait_for
from fedactive.sites.sockets import PromptProtocol, listen

MOST = 5
CALL = b"POST / HTTP/1.1\r\nhost: localhost\r\n"


async def app(scope, receive, send):
    """Answers a body with its length, and GET with eight megabytes."""
    if scope["type"] != "http":
        return
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    content = str(length).encode() if scope["method"] == "POST" else bytes(8 * 2**20)
    for start in range(0, len(content), 2**16):
        part = content[start : start + 2**16]
        await send({"type": "http.response.body", "body": part, "more_body": start + 2**16 < len(content)})


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(sockets, "SECONDS_TO_ASK", 1.5)
    monkeypatch.setattr(sockets, "SECONDS_TO_READ", 1.0)
    config = uvicorn.Config(
        app,
        http=PromptProtocol,
        limit_concurrency=MOST,
        log_level="critical",
        timeout_keep_alive=20,
        lifespan="off",
        ws="none",
    )
    made = uvicorn.Server(config)
    made.listening = listen("127.0.0.1", 0)
    made.address = made.listening.getsockname()
    serving = threading.Thread(target=made.run, kwargs={"sockets": [made.listening]})
    serving.start()
    wait_for(lambda: made.started, "the server", 5)
    yield made
    made.should_exit = True
    serving.join()


def status(server):
    """The status of a call, by as little as possible: those who hold connections are soon let go."""
    connection = HTTPConnection(*server.address)
    try:
        connection.request("POST", "/")
        return connection.getresponse().status
    finally:
        connection.close()


# What they send at first, and then again and again.
HOLDING = {
    "silent": (b"", b""),
    "headers without end": (CALL, b"x"),
    "a second call without end": (CALL + b"content-length: 0\r\n\r\n" + CALL, b"x"),
    "a body without end": (CALL + b"content-length: 1000000\r\n\r\n", b"x"),
    "an answer that nobody reads": (b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b""),
}


@pytest.mark.parametrize(("first", "then"), HOLDING.values(), ids=HOLDING)
def test_who_holds_connections_keeps_nobody_out(server, first, then):
    def nobody_is_kept_out():
        for connection in held:
            with suppress(OSError):  # hung up
                connection.sendall(then)
        return status(server) == 200

    assert status(server) == 200
    with ExitStack() as stack:
        refused = False
        for _ in range(5):  # on a busy machine the first ones may be let go before the last have come
            held = [stack.enter_context(socket.create_connection(server.address)) for _ in range(MOST)]
            for connection in held:
                connection.sendall(first)
            refused = refused or status(server) == 503
            if refused:
                break
        assert refused
        wait_for(nobody_is_kept_out, "a place", 10)


def test_one_address_has_only_so_many_places(server, monkeypatch):
    monkeypatch.setattr(sockets, "MOST_OF_ONE_ADDRESS", 3)
    with ExitStack() as stack:
        for _ in range(MOST + 2):
            stack.enter_context(socket.create_connection(server.address))
        wait_for(lambda: len(server.server_state.connections) == 3, "three connections", 10)
        time.sleep(0.1)
        with pytest.raises(ConnectionError):
            status(server)
        monkeypatch.setattr(PromptProtocol, "proxies", frozenset({"127.0.0.1"}))
        assert status(server) == 200


def test_a_body_that_gets_on_may_take_its_time(server, monkeypatch):
    monkeypatch.setattr(sockets, "SLOWEST", 40)
    with socket.create_connection(server.address) as connection:
        connection.sendall(CALL + b"content-length: 400\r\n\r\n")
        for _ in range(20):
            time.sleep(0.1)
            connection.sendall(bytes(20))
        assert b"200 OK" in connection.recv(1000)

"""A socket to serve on, and connections that keep moving.

uvicorn waits for headers and bodies for ever, and counts connections: a few silent strangers could keep all
others out. Here connections that are silent or slow, or too many from one address, are closed.
"""

from __future__ import annotations

import asyncio
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedactive.errors import UserError

MOST_CONNECTIONS = 512  # answered with 503 beyond
MOST_OF_ONE_ADDRESS = 128
SECONDS_TO_ASK = 20.0  # for the headers of a request, from when the last one was answered
SLOWEST = 16 * 1024  # bytes of a body in a second, unless the rest comes within SECONDS_TO_ASK
SECONDS_TO_READ = 60.0  # in which some of an answer must be taken


class PromptProtocol(H11Protocol):
    proxies: frozenset[str] = frozenset()  # addresses that speak for many people

    received = 0
    patience: asyncio.TimerHandle
    unread_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        others = sum(other.client is not None and other.client[0] == address for other in self.connections)
        self.wait()
        if others > MOST_OF_ONE_ADDRESS and address not in self.proxies:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        self.received += len(data)
        super().data_received(data)
        if self.cycle is not before:  # the headers are complete
            self.wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() and self.conn.their_state is h11.SEND_BODY:
            # TLS would read on until they are through. They have a second to read why they are refused.
            self.loop.call_later(1.0, self.transport.abort)
        self.wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; hang up if it belongs to a request that is being answered, or was."""
        if self.cycle:  # uvicorn would send a second answer, and fail
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        self.patience.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unread_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread_since = None

    def wait(self) -> None:
        """Begin a new span of time, at whose end the other side must have got on."""
        if hasattr(self, "patience"):
            self.patience.cancel()
        self.received = 0
        self.patience = self.loop.call_later(SECONDS_TO_ASK, self.look)

    def look(self) -> None:
        if self.is_too_slow():
            self.transport.abort()  # at once: closing in good order would wait for the other side again
        else:
            self.wait()

    def is_too_slow(self) -> bool:
        if self.unread_since is not None:
            return self.loop.time() - self.unread_since > SECONDS_TO_READ
        if self.flow.read_paused:
            return False  # we make them wait
        if self.conn.their_state is h11.SEND_BODY:
            return self.received < SLOWEST * SECONDS_TO_ASK
        return self.cycle is None or self.cycle.response_complete


def listen(host: str, port: int) -> socket.socket:
    """Listen on this address; port 0 takes a free one, and a port in use is an error at once."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UserError(f"cannot serve on {host} port {port}: {error.strerror}") from None

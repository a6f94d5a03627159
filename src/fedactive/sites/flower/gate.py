"""The only door of the coordinator that faces the world.

Flower's SuperLink answers everything on one port: sites (the Fleet API, signed with their keys), but also
whoever wants to admit sites and start runs (the Control API), which it lets anybody do who can reach it. So
the SuperLink listens on loopback only, and this gate passes on nothing but the Fleet API.

The SuperLink checks a signature when it has the whole call in memory. So the gate reads no body of a call
without the key of an admitted site, and closes connections that are slow to send their headers.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedactive.sites.sockets import listen

SECONDS_TO_FINISH = 3
SECONDS_TO_ASK = 20.0  # for the headers of a call, from when the last one was answered
FLEET = "/v1/fleet/"
MOST_CONNECTIONS = 512  # a site has one or two
LARGEST_CALL = 64 * 2**20  # bytes; Flower cuts what is large into pieces of 5 MiB
HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"}
REFUSED = 412  # by a 403 a SuperNode would understand that a run has ended, and go on calling


def make_gate(superlink: str, authority: Path, keys: Callable[[], Iterable[str]]) -> Starlette:
    """Make an application that passes the Fleet API on to a SuperLink, for calls with one of these keys."""
    client = httpx.AsyncClient(
        base_url=f"https://{superlink}",
        verify=ssl.create_default_context(cafile=str(authority)),
        timeout=httpx.Timeout(60.0),
        limits=httpx.Limits(max_connections=None),
    )

    async def forward(request: Request) -> Response:
        given = request.headers.get(FLEET_HTTP_PUBLIC_KEY_HEADER)
        if given not in {b64encode(key.encode()).decode() for key in keys()}:
            return PlainTextResponse("this key is not admitted, or was dismissed", REFUSED)
        if int(request.headers.get("content-length", LARGEST_CALL + 1)) > LARGEST_CALL:
            return PlainTextResponse("too large", 413)
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP_BY_HOP]
        # Not request.url, which the header Host has a part in.
        path = FLEET + request.path_params["call"]
        onward = client.build_request("POST", path, headers=headers, content=request.stream())
        try:
            answer = await client.send(onward, stream=True)
        except httpx.TransportError:
            return PlainTextResponse("the coordinator is starting or stopping", 503)
        except ClientDisconnect:
            return Response()  # to nobody
        kept = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
        return StreamingResponse(
            answer.aiter_raw(), answer.status_code, kept, background=BackgroundTask(answer.aclose)
        )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await client.aclose()

    return Starlette(routes=[Route(FLEET + "{call}", forward, methods=["POST"])], lifespan=lifespan)


class PromptProtocol(H11Protocol):
    """Closes connections that do not send a call's headers in time.

    uvicorn waits for them for ever, and connections are limited: silent ones would keep all sites out.
    """

    patience: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.patience = self.loop.call_later(SECONDS_TO_ASK, self.close_if_idle)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.patience.cancel()
        self.patience = self.loop.call_later(SECONDS_TO_ASK, self.close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self.patience.cancel()
        super().connection_lost(exc)

    def close_if_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()  # at once: closing in good order would wait for the other side again


class Gate:
    """Bound when made, so that a port in use is an error at once."""

    def __init__(
        self, superlink: str, folder: Path, host: str, port: int, keys: Callable[[], Iterable[str]]
    ) -> None:
        """`folder`: where ca.pem, server.pem and server.key are."""
        config = uvicorn.Config(
            make_gate(superlink, folder / "ca.pem", keys),
            ssl_certfile=folder / "server.pem",
            ssl_keyfile=folder / "server.key",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="warning",
            http=PromptProtocol,
            ws="none",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )
        self.socket = listen(host, port)
        self.server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until a signal ends it."""
        self.server.run(sockets=[self.socket])

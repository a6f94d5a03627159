"""The only door of the coordinator that faces the world.

Flower's SuperLink answers everything on one port: sites (the Fleet API, signed with their keys), but also
whoever wants to admit sites and start runs (the Control API), which it lets anybody do who can reach it. So
the SuperLink listens on loopback only, and this gate passes on nothing but the Fleet API.

The SuperLink checks a signature when it has the whole call in memory. So the gate reads no body of a call
that is not signed by an admitted site, and of those it reads only so many bytes at a time.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fedactive import __version__
from fedactive.sites.flower.signatures import Signatures, UnknownSiteError, WrongClockError
from fedactive.sites.sockets import MOST_CONNECTIONS, PromptProtocol, listen

SECONDS_TO_FINISH = 3
FLEET = "/v1/fleet/"
ABOUT = "/about"
LARGEST_CALL = 8 * 2**20  # bytes; Flower cuts what is large into pieces of 5 MiB
MOST_OF_A_SITE = 2 * LARGEST_CALL  # on their way at once
MOST_IN_ALL = 16 * LARGEST_CALL
SECONDS_FOR_ROOM = 60.0  # that a call waits until others are through
CALL = re.compile("[a-z-]+")
PASSED_ON = re.compile("flwr-.*|x-flwr-.*|accept|content-type|content-length")  # headers of a call
HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
REFUSED = 412  # by a 403 a SuperNode would understand that a run has ended, and go on calling


class Room:
    """Bytes that are on their way at once: limited in all, and for each site."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, site: str, size: int) -> AsyncIterator[None]:
        """Wait until there is room for so many bytes of this site; TimeoutError if there is none in time."""

        def there_is() -> bool:
            return self.taken[site] + size <= MOST_OF_A_SITE and self.taken.total() + size <= MOST_IN_ALL

        async with asyncio.timeout(SECONDS_FOR_ROOM), self.changed:
            await self.changed.wait_for(there_is)
            self.taken[site] += size
        try:
            yield
        finally:
            async with self.changed:
                self.taken[site] -= size
                self.taken += Counter()  # forgets who has nothing on its way
                self.changed.notify_all()


def make_gate(
    superlink: str, authority: Path, keys: Callable[[], Iterable[str]], address: str = ""
) -> Starlette:
    """Make an application that passes the Fleet API on to a SuperLink, for calls that these keys signed.

    To everybody it says the `address` at which sites should look for it, which the invitation says, too.
    """
    client = httpx.AsyncClient(
        base_url=f"https://{superlink}",
        verify=ssl.create_default_context(cafile=str(authority)),
        timeout=httpx.Timeout(60.0),
        limits=httpx.Limits(max_connections=None),
    )
    signatures, room = Signatures(keys), Room()

    async def forward(request: Request) -> Response:
        call = request.path_params["call"]
        if not CALL.fullmatch(call):
            return refuse("no such call", 404)
        try:
            site = signatures.find_site(request.headers)
        except UnknownSiteError as reason:
            return refuse(str(reason), REFUSED)
        except WrongClockError as reason:
            return refuse(str(reason), 401)
        if not request.headers.get("content-length", "").isdecimal():
            return refuse("the length of a call must be known", 411)
        size = int(request.headers["content-length"])
        if size > LARGEST_CALL:
            return refuse("too large", 413)
        headers = [(name, value) for name, value in request.headers.items() if PASSED_ON.fullmatch(name)]
        if not all(text.isascii() and text.isprintable() for header in headers for text in header):
            return refuse("headers are printable ASCII", 400)
        # Not request.url, which the header Host has a part in.
        onward = client.build_request("POST", FLEET + call, headers=headers, content=request.stream())
        try:
            async with room.take(site, size):
                answer = await client.send(onward, stream=True)
        except TimeoutError:
            return refuse("too much is on its way already", 503)
        except httpx.TransportError:
            return refuse("the coordinator is starting or stopping", 503)
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

    async def about(_: Request) -> Response:
        return JSONResponse({"address": address, "fedactive": __version__})

    routes = [Route(FLEET + "{call}", forward, methods=["POST"]), Route(ABOUT, about)]
    return Starlette(routes=routes, lifespan=lifespan)


def refuse(reason: str, status: int) -> Response:
    """Answer and hang up: what is still on its way is not read."""
    return PlainTextResponse(reason, status, {"connection": "close"})


class Gate:
    """Bound when made, so that a port in use is an error at once."""

    def __init__(
        self,
        superlink: str,
        folder: Path,
        host: str,
        ports: Iterable[int],
        keys: Callable[[], Iterable[str]],
        address: str = "",
    ) -> None:
        """`folder`: where ca.pem, server.pem and server.key are."""
        config = uvicorn.Config(
            make_gate(superlink, folder / "ca.pem", keys, address),
            ssl_certfile=folder / "server.pem",
            ssl_keyfile=folder / "server.key",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,  # its lines look like ours
            log_level="warning",
            http=PromptProtocol,
            ws="none",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )
        self.sockets = [listen(host, port) for port in dict.fromkeys(ports)]
        self.server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until a signal ends it."""
        self.server.run(sockets=self.sockets)

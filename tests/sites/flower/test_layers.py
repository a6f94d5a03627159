"""The short way through a server's layers leads to the same answers as Starlette's own."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from fedactive.sites.flower import layers


@pytest.fixture(params=["in tasks", "directly"])
def way(request, monkeypatch):
    monkeypatch.setattr(BaseHTTPMiddleware, "__call__", layers.in_tasks)
    if request.param == "directly":
        layers.shorten()


class Outer(BaseHTTPMiddleware):
    """Says what went wrong, as Flower's outermost layer does."""

    async def dispatch(self, request, call_next):
        try:
            response = await call_next(request)
        except ValueError as error:
            return PlainTextResponse(f"translated: {error}", 418)
        response.headers["x-passed"] = "outer," + response.headers["x-passed"]
        return response


class Inner(BaseHTTPMiddleware):
    """Reads the body, may refuse the call, and hands over what it has read, as Flower's others do."""

    async def dispatch(self, request, call_next):
        request.state.size = len(await request.body())
        if "x-refused" in request.headers:
            raise ValueError("refused")
        response = await call_next(request)
        response.headers["x-passed"] = "inner"
        return response


async def say(request):
    body = await request.body()
    if body == b"wrong":
        raise ValueError("a wrong one")
    return PlainTextResponse(f"{request.state.size} {len(body)}", 201, {"x-own": "kept"})


async def stream(_):
    async def pieces():
        yield "one "
        yield "two"

    return StreamingResponse(pieces())


def call(path, content=b"", **headers):
    async def work():
        app = Starlette(
            routes=[Route(api + "say", say, methods=["POST"]) for api in ("/v1/fleet/", "/v1/control/")]
            + [Route("/v1/runtime/stream", stream, methods=["POST"])],
            middleware=[Middleware(Outer), Middleware(Inner)],
        )
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="https://localhost") as client:
            return await client.post(path, content=content, headers=headers)

    return asyncio.run(work())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("path", ["/v1/fleet/say", "/v1/control/say"])
def test_a_call_passes_all_layers_in_their_order(path):
    answer = call(path, bytes(300_000))
    assert (answer.status_code, answer.text) == (201, "300000 300000")
    assert answer.headers["x-passed"] == "outer,inner"
    assert answer.headers["x-own"] == "kept"
    assert answer.headers.get_list("content-length") == [str(len(answer.content))]


@pytest.mark.usefixtures("way")
def test_a_layer_refuses_a_call_before_what_is_inside():
    answer = call("/v1/fleet/say", b"wrong", **{"x-refused": "yes"})
    assert (answer.status_code, answer.text) == (418, "translated: refused")


@pytest.mark.usefixtures("way")
def test_what_goes_wrong_inside_reaches_the_layers_outside():
    answer = call("/v1/fleet/say", b"wrong")
    assert (answer.status_code, answer.text) == (418, "translated: a wrong one")


@pytest.mark.usefixtures("way")
def test_an_answer_in_pieces_arrives_whole():
    assert call("/v1/runtime/stream").text == "one two"

"""Around every answer: headers that keep the browser strict. Around every request: its limits."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("img", "script", "style", "connect")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
STRICT_TRANSPORT = "max-age=31536000"  # browsers ask only by TLS for a year
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+?)\.?(:[0-9]+)?", re.IGNORECASE)
LARGEST = 64 * 1024
LARGEST_IMPORT = 64 * 1024 * 1024


class Guard:
    def __init__(self, app: ASGIApp, known_hosts: Iterable[str]) -> None:
        self.app = app
        self.known_hosts = LOOPBACK | {host.lower() for host in known_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = LARGEST_IMPORT if scope["path"] == "/api/label-studio" else LARGEST
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, f"The request is larger than {limit // 1024} KB.")
            return message

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if scope["scheme"] == "https":
                    headers["Strict-Transport-Security"] = STRICT_TRANSPORT
                # Scripts and styles are asked for again and again, so that an update takes effect. Nothing
                # else, images least of all, is in the browser's cache when somebody has signed out.
                static = scope["path"].startswith("/static/")
                headers.setdefault("Cache-Control", "no-cache" if static else "no-store")
            await send(message)

        if not self.is_known(Headers(scope=scope).get("host", "")):
            # For example, the name of a foreign page that its owner makes lead here.
            refusal = JSONResponse({"error": "This page is not reached under this name."}, 421)
            await refusal(scope, receive, send_guarded)
            return
        await self.app(scope, receive_limited, send_guarded)

    def is_known(self, host: str) -> bool:
        found = HOST.fullmatch(host)
        return found is not None and found[1].lower() in self.known_hosts

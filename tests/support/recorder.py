"""A door like the coordinator's gate, which keeps a copy of everything that comes in through it."""

from __future__ import annotations

import threading
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.flower.gate import Gate


class Recorder:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.requests: list[tuple[str, bytes, bytes]] = []  # path, all headers, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = bytearray()

        async def copied() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        await self.app(scope, copied, send)
        headers = b"\n".join(name + b": " + value for name, value in scope["headers"])
        self.requests.append((scope["path"] + "?" + scope["query_string"].decode(), headers, bytes(body)))

    @property
    def everything(self) -> bytes:
        return b"".join(b"\n".join([path.encode(), headers, body]) for path, headers, body in self.requests)


def record_at(port: int, superlink: str, folder: Path) -> tuple[Recorder, Gate]:
    """Listen beside the coordinator of this folder; `run` of the gate in a thread starts it."""
    gate = Gate(superlink, folder, "127.0.0.1", [port], Coordinator(folder).keys)
    recorder = Recorder(gate.server.config.app)
    gate.server.config.app = recorder
    threading.Thread(target=gate.run, daemon=True).start()
    return recorder, gate

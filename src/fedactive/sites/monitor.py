"""What a monitoring system asks: /health for people and load balancers, /metrics for Prometheus.

Both say counts and times only. They are open to whoever reaches the port, so it is one of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fedactive import __version__
from fedactive.sites.invitation import parse_address
from fedactive.sites.sockets import MOST_CONNECTIONS, PromptProtocol, listen

TEXT = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus' exposition format


@dataclass(frozen=True)
class Reading:
    name: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)  # labels, value
    kind: str = "gauge"


def single(name: str, help: str, value: float, kind: str = "gauge") -> Reading:
    return Reading(name, help, [({}, value)], kind)


def exposition(metrics: Iterable[Reading]) -> str:
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            pairs = ",".join(f'{name}="{escape(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{pairs}}} {value!r}" if pairs else f"{metric.name} {value!r}")
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Monitor:
    """Bound when made, so that a port in use is an error at once; serves in a thread after `start`."""

    def __init__(
        self, address: str, troubles: Callable[[], list[str]], metrics: Callable[[], Iterable[Reading]]
    ) -> None:
        """`troubles` says in sentences what does not work; where there is none, /health answers with 200."""

        def health(_: object) -> Response:
            found = troubles()
            state = {"status": "failing" if found else "ok", "troubles": found, "fedactive": __version__}
            return JSONResponse(state, 503 if found else 200)

        def show_metrics(_: object) -> Response:
            about = Reading("fedactive_info", "Version.", [({"version": __version__}, 1)])
            return PlainTextResponse(exposition([about, *metrics()]), media_type=TEXT)

        host, port = parse_address(address)
        app = Starlette(routes=[Route("/health", health), Route("/metrics", show_metrics)])
        config = uvicorn.Config(
            app,
            http=PromptProtocol,
            ws="none",
            lifespan="off",
            limit_concurrency=MOST_CONNECTIONS,
            server_header=False,
            access_log=False,
            log_config=None,
            log_level="warning",
            timeout_graceful_shutdown=1,
        )
        self.socket = listen(host, port)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()

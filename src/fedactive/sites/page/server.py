"""The page on a socket: loopback, or anywhere with a certificate."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from fedactive.errors import ConfigurationError, UserError
from fedactive.sites.sockets import MOST_CONNECTIONS, PromptProtocol, listen

SECONDS_TO_FINISH = 5


class PageServer:
    """Bound when made, so that a port in use is an error at once; `run` in any thread, `stop` from any."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        certificate: tuple[Path, Path] | None = None,
        proxies: Iterable[str] = (),
    ) -> None:
        """`certificate`: the files of the certificate and of its key. Port 0 takes a free one.

        `proxies` are addresses whose word is taken for whom they speak for, and whether by TLS.
        """
        if certificate is None and not _is_loopback(host):
            raise ConfigurationError(
                "host", host, "this machine only (127.0.0.1, ::1, localhost), unless there is a certificate"
            )
        files = certificate or (None, None)
        trusted = frozenset(proxies)
        config = uvicorn.Config(
            app,
            ssl_certfile=files[0],
            ssl_keyfile=files[1],
            # Of anybody else, an address in a header could only be made up.
            proxy_headers=bool(trusted),
            forwarded_allow_ips=sorted(trusted),
            http=type("PageProtocol", (PromptProtocol,), {"proxies": trusted}),
            limit_concurrency=MOST_CONNECTIONS,
            server_header=False,
            access_log=False,
            log_config=None,  # its lines look like ours
            log_level="warning",
            lifespan="off",
            ws="none",
            timeout_keep_alive=15,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"cannot use the certificate {files[0]} with the key {files[1]}: {error}"
            ) from None
        self.socket = listen(host, port)
        name = f"[{host}]" if ":" in host else host
        scheme = "https" if certificate else "http"
        self.address = f"{scheme}://{name}:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until stopped."""
        self.server.run(sockets=[self.socket])

    def stop(self) -> None:
        """Finish what is being answered, then end `run`."""
        self.server.should_exit = True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

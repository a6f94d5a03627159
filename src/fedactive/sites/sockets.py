"""A socket to serve on, bound before anything starts: a port in use is an error at once."""

from __future__ import annotations

import socket

from fedactive.errors import UserError


def listen(host: str, port: int) -> socket.socket:
    """Listen on this address; port 0 takes a free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UserError(f"cannot serve on {host} port {port}: {error.strerror}") from None

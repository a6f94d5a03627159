"""What the commands of coordinator and sites share."""

from __future__ import annotations

import logging
import signal
import sys
import warnings
from typing import Any

import click
from typer.core import TyperGroup

from fedactive.errors import UserError
from fedactive.sites.log_lines import PlainFormatter


class SitesGroup(TyperGroup):
    """Commands that need the extra `sites`; each imports what it needs when it is called."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            package = str(error.name).split(".")[0]
            raise UserError(f"{package} is missing: pip install 'fedactive[sites]' brings it") from None


def prepare_to_serve() -> None:
    """Log to the terminal, and let Ctrl-C and SIGTERM end the server in good order."""
    terminal = logging.StreamHandler()
    terminal.setFormatter(PlainFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[terminal])
    warnings.showwarning = lambda message, *_, **__: logging.warning("warning: %s", message)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # an exception, so that everything is closed

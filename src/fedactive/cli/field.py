"""What the commands of coordinator and sites share."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fedactive.errors import UserError


@contextmanager
def sites_extra() -> Iterator[None]:
    """Around imports of `fedactive.sites`: if a package is missing, say which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).split(".")[0]
        raise UserError(f"{package} is missing: pip install 'fedactive[sites]' brings it") from None


def prepare_to_serve() -> None:
    """Show on the terminal what happens. Ctrl-C and SIGTERM end it in good order."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # an exception, so that everything is closed

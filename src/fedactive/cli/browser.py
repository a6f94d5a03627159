"""Show a page in the user's browser, where there is one."""

from __future__ import annotations

import webbrowser
from pathlib import Path


def show_in_browser(page: Path) -> None:
    """Open the page; say where it is if no browser can be started, as on a server."""
    page = page.resolve()
    if not webbrowser.open(page.as_uri()):
        print(f"no browser can be started here; open this file in one: {page}")

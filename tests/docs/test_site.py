"""The documentation as a site: it builds without a warning, asks no other machine for anything, and reads well."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.browser import Browser
from support.documents import ROOT

# Scrolling code and tables within the page is meant; the page itself must not be wider than the window.
TOO_WIDE = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
BROKEN = "return [...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*>")
PAGES = ("index", "tutorials/compare", "methods/kafal", "reference/commands/laboratory", "FIELD")


def test_the_site_is_built_without_warnings_and_reads_well(tmp_path: Path, request: pytest.FixtureRequest):
    """One test, because building takes some seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = {page.relative_to(tmp_path).as_posix(): page.read_text() for page in tmp_path.rglob("*.html")}
    assert len(pages) > 60
    for place, text in pages.items():
        assert not [tag for tag in LOADED.findall(text) if "//" in tag], f"{place} asks another machine"
    request.getfixturevalue("looks_good")(tmp_path)


@pytest.fixture
def looks_good(browser: Browser) -> Iterator[Callable[[Path], None]]:
    """Serve a folder, and look at pages of every kind in both widths, light and dark."""
    servers = []

    def look(folder: Path) -> None:
        handler = type("Handler", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
        servers.append(server)
        threading.Thread(target=server.serve_forever).start()
        for place in PAGES:
            for width in (1280, 390):
                browser.open(
                    f"http://127.0.0.1:{server.server_port}/{place}.html",
                    width,
                    dark=width == 390,
                    touch=width == 390,
                )
                assert not browser.run(TOO_WIDE), (place, width)
                assert browser.run(BROKEN) == []
                assert browser.console() == []
        browser.type("input.md-search__input", "label saving")
        browser.wait("document.querySelector('.md-search-result__link')")

    yield look
    for server in servers:
        server.shutdown()
        server.server_close()

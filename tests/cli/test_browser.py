"""A page is shown in a browser; a script stands for one, which writes down what it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def show(page: Path, **environment: str) -> str:
    program = (
        "import sys; from pathlib import Path; from fedactive.cli.browser import show_in_browser; "
        "show_in_browser(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, page]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_page_is_opened_in_the_browser_that_is_there(tmp_path):
    browser, asked = tmp_path / "browser", tmp_path / "asked"
    browser.write_text(f'#!/bin/sh\necho "$1" > {asked}\n')
    browser.chmod(0o755)
    page = tmp_path / "my report.html"
    assert show(page, BROWSER=f"{browser} %s", PATH="") == ""
    assert asked.read_text() == f"{page.as_uri()}\n"


def test_without_a_browser_one_is_told_where_the_page_is(tmp_path):
    page = tmp_path / "report.html"
    assert show(page, PATH="") == f"no browser can be started here; open this file in one: {page}\n"

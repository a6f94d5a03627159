"""axe-core in a browser: an automatic checker of accessibility (https://github.com/dequelabs/axe-core)."""

from __future__ import annotations

import functools
from pathlib import Path

from support.browser import Browser

FILE = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECK = """
const [only, done] = arguments;
axe.run(document, {runOnly: only, resultTypes: ["violations"]}).then(result => done(result.violations.map(
  ({id, help, nodes}) => `${id}: ${help}: ${nodes.map(node => node.html.slice(0, 200)).join(" | ")}`)));
"""


def missing() -> str:
    """Why there is no checker here, or nothing."""
    return "" if FILE.exists() else "axe-core not installed (make browser)"


@functools.cache
def source() -> str:
    return FILE.read_text()


def faults(browser: Browser, colours: bool = False) -> list[str]:
    """What is wrong with the page on the screen, by WCAG 2.2 A and AA; or with its colours alone."""
    browser.run(source())
    only = ["color-contrast", "link-in-text-block"] if colours else RULES
    found = browser.call("POST", f"{browser.session}/execute/async", {"script": CHECK, "args": [only]})
    assert isinstance(found, list)
    return found

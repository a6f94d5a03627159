"""What the labelling page says in a browser."""

from __future__ import annotations

from support.browser import Browser


def shown(browser: Browser) -> int:
    """The number of the image on the screen."""
    source = browser.wait("document.getElementById('image')?.getAttribute('src')")
    return int(source.rpartition("/")[2])


def done(browser: Browser, count: int) -> None:
    """Wait until so many images are."""
    browser.wait(f"document.getElementById('done')?.textContent.startsWith('{count} of')")

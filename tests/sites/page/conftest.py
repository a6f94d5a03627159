"""A real site's page: real store, real images, a real server on a loopback socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedactive.sites.labels.store import LabelStore
from fedactive.sites.page.app import create_app
from fedactive.sites.page.server import PageServer
from fedactive.sites.site.image_pool import ImagePool
from support.browser import Browser
from support.small_images import make_images

CLASSES = ("circle", "square", "cross", "none of these")
SECRET = b"of the tests"


@dataclass
class Site:
    store: LabelStore
    images: ImagePool
    server: PageServer
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.server.address

    def show(self, images: ImagePool) -> None:
        """Others than the usual ones."""
        self.desk(images=images)

    def desk(self, **changes: Any) -> None:
        """Give the page something else to work with."""
        state = self.server.server.config.app.state
        state.desk = replace(state.desk, **changes)

    def token(self, name: str, **roles: bool) -> str:
        if name not in self.tokens:
            self.tokens[name] = self.store.annotators.add(name, **roles)
        return self.tokens[name]

    def client(self, name: str, **roles: bool) -> httpx.Client:
        """Somebody who signed in the way programs do."""
        client = httpx.Client(base_url=self.address)
        answer = client.post("/api/sign-in", json={"token": self.token(name, **roles)})
        client.headers["X-CSRF-Token"] = answer.raise_for_status().json()["csrf"]
        return client


def guess(sample: int) -> tuple[int, float] | None:
    return (sample % 4, 0.75) if sample < 50 else None


@pytest.fixture
def classes() -> tuple[str, ...]:
    return CLASSES


@pytest.fixture
def site(tmp_path: Path, classes: tuple[str, ...]) -> Iterator[Site]:
    store = LabelStore(tmp_path / "labels.sqlite")
    images = make_images(tmp_path / "images.npz")
    app = create_app(store, images, classes, secret=SECRET, title="St. Elsewhere", guess=guess)
    server = PageServer(app, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield Site(store, images, server)
    server.stop()
    thread.join(20)
    store.close()
    assert not thread.is_alive()


@pytest.fixture
def signed_in(site: Site) -> Iterator[Callable[..., httpx.Client]]:
    clients = []

    def make(name: str, **roles: bool) -> httpx.Client:
        clients.append(site.client(name, **roles))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def idle_browsers():
    """Chromium takes two seconds of both cores to start: what one test has used, another uses."""
    idle = []
    yield idle
    for browser in idle:
        browser.close()


@pytest.fixture
def browse(idle_browsers):
    open_browsers = []

    def make(site, name, width=1280, height=800, lead=False, reviewer=False, **options):
        browser = idle_browsers.pop() if idle_browsers else Browser()
        open_browsers.append(browser)
        browser.open(site.address, width, height, touch=width < 500, **options)
        browser.type("#token", site.token(name, lead=lead, reviewer=reviewer))
        browser.click("main button")
        browser.wait("document.querySelector('.who')")
        return browser

    yield make
    for browser in open_browsers:
        browser.forget()
        idle_browsers.append(browser)

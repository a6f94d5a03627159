"""The order of the tests, and a coordinator and a site to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.folder import Site
from support.folders import make_coordinator, make_site

# The federation of real processes comes first: it mostly waits, and other tests can run meanwhile. pytest-xdist
# gives a worker the first eighth of all tests at once, so that those of the federation stay together; the quick
# ones behind them do not keep that worker long.
FIRST = ("test_flower.py", "test_wire.py", "test_store.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    return make_coordinator(tmp_path)


@pytest.fixture
def collect() -> Iterator[Callable[[Site], Collection]]:
    """What looks at a site's images."""
    with ExitStack() as stores:
        yield lambda site: Collection(site, stores.enter_context(closing(site.store())))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)

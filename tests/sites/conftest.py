"""The order of the tests."""

from __future__ import annotations

import pytest

# The federation of real processes comes first: it mostly waits, and other tests can run meanwhile. pytest-xdist
# gives a worker the first eighth of all tests at once, so that those of the federation stay together; the quick
# ones behind them do not keep that worker long.
FIRST = ("test_flower.py", "test_wire.py", "test_store.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))

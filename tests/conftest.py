"""Small real things that many tests share."""

from __future__ import annotations

import os
import signal

os.environ["OMP_NUM_THREADS"] = "1"  # tests run side by side, one per core; before torch is imported
# A shell starts background jobs deaf to Ctrl-C, and their children inherit that; tests send it to theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fedactive.data.catalog import DATASETS
from fedactive.data.dataset import Dataset
from fedactive.data.loader import load
from fedactive.experiment import Experiment
from fedactive.registry import REGISTRIES
from support.browser import Browser, missing
from support.lacking import NO_GPU, lacking


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that wait for many processes: others run meanwhile, and nothing is left to wait for."""
    items.sort(key=lambda item: item.path.name not in ("test_flower.py", "test_on_ray.py"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how many tests want a GPU: as if they were skipped in one place."""
    for report in terminalreporter.stats.get("skipped", []):
        if report.longrepr[2].removeprefix("Skipped: ") == NO_GPU:
            report.longrepr = (str(Path(__file__).parent), None, NO_GPU)


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return load("digits", Path("data"))


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Experiment]:
    """A complete experiment that runs in about a second."""

    def make(**changes: object) -> Experiment:
        values: dict[str, object] = {
            "dataset": "digits",
            "clients": 3,
            "rounds": 3,
            "fl_rounds": 3,
            "local_epochs": 1,
            "local_only_epochs": 4,
            "augment": "none",
            "device": "cpu",
            "workers": 1,
            "runs_dir": tmp_path / "runs",
        }
        return Experiment(**(values | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium, one for all tests of a process."""
    if reason := missing():
        lacking(reason)
    with Browser() as window:
        yield window


@pytest.fixture(autouse=True)
def global_randomness_is_left_alone():
    """No code of the package may draw from torch's global generator."""
    before = torch.random.get_rng_state()
    yield
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.fixture(autouse=True)
def registries_are_put_back():
    """What a test registers is its own."""
    cards, classes = dict(DATASETS), [dict(registry.classes) for registry in REGISTRIES]
    yield
    DATASETS.clear()
    DATASETS.update(cards)
    for registry, before in zip(REGISTRIES, classes, strict=True):
        # What comes with the package stays: its module is imported only once.
        ours = {name: cls for name, cls in registry.classes.items() if name in registry.ours}
        registry.classes = ours | before

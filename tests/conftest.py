"""Small real things that many tests share."""

from __future__ import annotations

import gc
import os
import signal

gc.disable()  # while all is imported: `pytest_collection_finish` has it again
os.environ["OMP_NUM_THREADS"] = "1"  # tests run side by side, one per core; before torch is imported
# A shell starts background jobs deaf to Ctrl-C, and their children inherit that; tests send it to theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Only a power cut could tell whether the disk has what was written, so no test of this process waits for it.
os.fsync = lambda file: None

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fedactive.data.catalog import DATASETS
from fedactive.data.dataset import Dataset
from fedactive.data.loader import load
from fedactive.experiment import Experiment
from fedactive.registry import AUGMENTATIONS, BACKBONES, REGISTRIES
from support.browser import Browser, missing
from support.lacking import NO_GPU, lacking

# Files whose tests wait for many processes or a browser, by the worker that begins with them.
SLOW = (
    ("flower/test_flower.py",),
    ("laboratory/test_on_ray.py", "sweep/test_on_ray.py", "sweep/test_shared_folder.py"),
    ("page/test_browser.py", "page/test_fuzz.py", "flower/test_gate_fuzz.py"),
    ("sweep/test_comparison.py"),
    ("record/test_run_folder.py", "sites/test_hardships.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each of four workers begin with slow tests, so that none is left with them at the end.

    `--dist worksteal` gives each a quarter of the list, and whoever is done takes over from the others' ends.
    """
    groups = [[item for item in items if item.path.as_posix().endswith(files)] for files in SLOW]
    slow = {item for group in groups for item in group}
    quick = [item for item in items if item not in slow]
    part = len(items) // len(SLOW)
    items.clear()
    for group in groups:
        share = max(0, part - len(group))
        items += [*group, *quick[:share]]
        del quick[:share]
    items += quick


def pytest_collection_finish() -> None:
    """Search for garbage in what tests leave, never again in all the libraries and tests that were imported."""
    gc.freeze()
    gc.enable()


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
    """A complete experiment that runs in a fraction of a second: what trains makes no difference to most tests."""

    def make(**changes: object) -> Experiment:
        values: dict[str, object] = {
            "dataset": "digits",
            "clients": 3,
            "rounds": 3,
            "fl_rounds": 3,
            "local_epochs": 1,
            "local_only_epochs": 4,
            "model": "mlp",
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
    registries = (*REGISTRIES, BACKBONES, AUGMENTATIONS)
    cards, classes = dict(DATASETS), [dict(registry.classes) for registry in registries]
    yield
    DATASETS.clear()
    DATASETS.update(cards)
    for registry, before in zip(registries, classes, strict=True):
        # What comes with the package stays: its module is imported only once.
        ours = {name: cls for name, cls in registry.classes.items() if name in registry.ours}
        registry.classes = ours | before

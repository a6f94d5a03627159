"""Three sites give the numbers that they always gave. All that it takes of the package's inside is in `field`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from .cases import SMALL
from .outcome import Outcome, assert_as_recorded, load, outcome, same_arithmetic

EXPECTED = load()
ALGORITHMS = {
    "fedavg": {"strategy": "logo"},
    "fedprox": {"strategy": "badge", "algorithm": "fedprox", "mu": 0.1, "init": "continue"},
    "scaffold": {"strategy": "entropy", "selector": "local", "algorithm": "scaffold", "participation": 0.7},
}


def field(settings: dict[str, object], folder: Path) -> Outcome:
    """A run of three sites in this process, over a transport that is a function call."""
    from fedactive.experiment import Experiment
    from fedactive.record.run_folder import read_checkpoint
    from fedactive.sites.coordinator.plan import FieldPlan, Rules
    from fedactive.sites.coordinator.run_plan import run_plan
    from support.loopback import loopback

    experiment = Experiment.from_values(SMALL | settings | {"runs_dir": folder / "coordinator"})
    transport = loopback(experiment, folder)
    result = run_plan(FieldPlan(experiment, Rules()), transport, ["north", "south", "west"])
    labels = [annotator.store.labels() for annotator in transport.annotators]
    weights = read_checkpoint(result.folder / "checkpoint.pt").server.weights

    content = b"".join(name.encode() + weights[name].numpy().tobytes() for name in sorted(weights))
    return {
        **outcome(result.folder, result.metrics, result.selections),
        "labels": [len(known) for known in labels],
        "weights": hashlib.sha256(content).hexdigest()[:12],
    }


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_three_sites_give_the_same_numbers(algorithm: str, tmp_path: Path):
    found = field(ALGORITHMS[algorithm], tmp_path)
    assert_as_recorded(found, EXPECTED["field"][algorithm], same_arithmetic(EXPECTED))

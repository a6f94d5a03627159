"""What is kept of a run: exact bytes as hashes, and what people can read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .arithmetic import fingerprint
from .cases import HERE

EXPECTED = HERE / "expected.json"
METRICS = ("al_round", "fl_round", "labelled", "model", "client", "accuracy", "loss", "class_accuracy")
SELECTIONS = ("al_round", "client", "rank", "sample", "label", "score")
# Where a machine rounds differently, accuracies (shares) may be so far apart. In AL round 1 all train on the same
# samples. Later others may be chosen, and runs as short as these go different ways: that bound is for gross errors.
TOLERANCE_OF_FIRST_ROUND = 0.05
TOLERANCE = 0.4

Outcome = dict[str, Any]


def load() -> dict[str, Any]:
    """Nothing before the first recording."""
    expected: dict[str, Any] = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    return expected


def same_arithmetic(expected: dict[str, Any], precision: str = "fp32") -> bool:
    return bool(expected["arithmetic"][kind(precision)] == fingerprint(kind(precision)))


def kind(precision: str) -> str:
    return "bf16" if precision == "bf16" else "fp32"  # on a CPU tf32 is fp32


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def column(values: pd.Series) -> str:
    """A hash of the exact values, whatever type pandas gives them."""
    if isinstance(values.iloc[0], str):
        return digest("\n".join(values).encode())
    if isinstance(values.iloc[0], np.ndarray | list):
        return digest(b"".join(np.asarray(row, np.float64).tobytes() for row in values))
    if values.name in ("accuracy", "loss", "score"):
        return digest(values.to_numpy(np.float64, na_value=np.nan).tobytes())
    return digest(values.to_numpy(np.int64, na_value=-1).tobytes())


def outcome(folder: Path, metrics: pd.DataFrame, selections: pd.DataFrame) -> Outcome:
    of_global = metrics[metrics["model"] == "global"]
    clients = pd.read_parquet(folder / "clients.parquet")
    first = selections[selections["al_round"] == 1]
    return {
        "name": folder.name,
        "clients": {name: column(clients[name]) for name in ("client", "sample")},
        "labelled": of_global.groupby("al_round")["labelled"].first().tolist(),
        "first": {name: column(first[name]) for name in SELECTIONS[:-1]},
        "accuracy": of_global["accuracy"].round(4).tolist(),
        "al_round": of_global["al_round"].tolist(),
        "metrics": {name: column(metrics[name]) for name in METRICS},
        "selections": {name: column(selections[name]) for name in SELECTIONS},
    }


EXACT_ANYWHERE = ("name", "clients", "labelled", "first", "al_round", "labels")


def assert_as_recorded(found: Outcome, expected: Outcome, exact: bool) -> None:
    """All of it, or where floats are rounded differently, what does not depend on that."""
    kept = expected.keys() if exact else [part for part in EXACT_ANYWHERE if part in expected]
    different = [part for part in kept if found[part] != expected[part]]
    told = "; ".join(f"{part} {changes(found[part], expected[part])}" for part in different)
    assert not different, f"{expected['name']} has changed: {told}"
    apart = np.abs(np.subtract(found["accuracy"], expected["accuracy"]))
    allowed = np.where(np.array(expected["al_round"]) == 1, TOLERANCE_OF_FIRST_ROUND, TOLERANCE)
    assert (apart <= allowed).all(), f"accuracies {found['accuracy']}, expected about {expected['accuracy']}"


def changes(found: Any, expected: Any) -> str:
    if isinstance(expected, dict):
        return f"({', '.join(name for name in expected if found.get(name) != expected[name])})"
    return f"{found}, expected {expected}"

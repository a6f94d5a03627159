"""The run folder: everything a run decided is on disk, so that a killed run can be resumed.

experiment.toml       the configuration
environment.json      versions, hardware and source revision at each start
clients.parquet       which client holds which sample
metrics.parquet       one row per evaluated model (see State.metrics)
selections.parquet    one row per labelled sample
timings.parquet       seconds per AL round and phase
checkpoint.pt         the state to resume from; checkpoint.previous.pt the one before
done.json             only when the run has ended: how many AL rounds it has

Beside the run folders, `.first-rounds` keeps states after AL round 1, which is the same for all strategies,
and `.outdated` the folders that --fresh has set aside.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedactive.errors import InUseError, RunError
from fedactive.experiment import Experiment
from fedactive.files import read_json, write_atomically, write_json, write_partial
from fedactive.record.environment import describe_environment
from fedactive.record.lock import take_lock
from fedactive.record.state import State
from fedactive.record.state_checks import require_whole
from fedactive.record.tables import DAMAGE
from fedactive.registry import AUGMENTATIONS, REGISTRIES, STRATEGIES, split_names

FORMAT = 1
LOCK = ".lock"  # held by the process that runs
SECONDS_BETWEEN_CHECKPOINTS = 10.0
OUTDATED = ".outdated"  # where runs of other data or code are moved, beside the run folders
MAGIC = b"fedactive checkpoint 1 "
UNREADABLE: tuple[type[Exception], ...] = (*DAMAGE, RuntimeError, UnpicklingError)
TABLES = {"metrics": State.metrics, "selections": State.selections, "timings": State.timings}


class OutdatedError(RunError):
    """A run that was begun with other data or code."""


class Run:
    """One run folder, held by one process at a time."""

    def __init__(self, experiment: Experiment, data: str | None = None) -> None:
        """Open the experiment's folder; `state` is where the run begins or goes on.

        `data` is the fingerprint of the dataset; None where there is none.
        """
        self.experiment = experiment
        self.folder = experiment.folder
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = take_lock(self.folder / LOCK)
        except OSError as error:
            raise RunError(
                f"cannot write in {self.folder}: {error.strerror}; choose another --runs-dir"
            ) from None
        if lock is None:
            raise InUseError(f"{self.folder} is in use by another process; wait for it or stop it")
        self.lock = lock  # held until close()
        self.begun_from: Path | None = None  # the file that the state was read from
        self.saved_at = time.monotonic()
        try:
            self.origin = require_same_origin(experiment, data)
            self.done = is_finished(experiment)
            self.state = State() if self.done else self.load_checkpoint()
        except BaseException:
            self.close()
            raise

    def begin(self, pools: Sequence[np.ndarray], device: str, engine: str) -> None:
        """Write what is decided before the first round, and the environment of this start."""
        write_atomically(self.folder / "experiment.toml", self.experiment.to_toml().encode())
        clients = np.repeat(np.arange(len(pools)), [len(pool) for pool in pools])
        self.write_table("clients", pd.DataFrame({"client": clients, "sample": np.concatenate(pools)}))
        start = {**describe_environment(), "device": device, "engine": engine, **self.origin}
        starts = [*earlier_starts(self.folder), start]
        write_json(self.folder / "environment.json", {"format": FORMAT, "starts": starts})

    def save_if_due(self) -> None:
        """Save a checkpoint, unless the last one is recent: a resumed run repeats rounds exactly."""
        if time.monotonic() - self.saved_at >= SECONDS_BETWEEN_CHECKPOINTS:
            self.save()

    def save(self) -> None:
        current, previous = self.checkpoints
        partial = write_partial(current, checkpoint_bytes(self.state))
        if current.exists():
            os.replace(current, previous)
        os.replace(partial, current)
        self.saved_at = time.monotonic()

    def share_first_round(self) -> None:
        """Save the state after AL round 1 for other strategies of the same seed and setting."""
        path, origin = first_round_file(self.experiment), first_round_origin(self.origin)
        if origin and read_first_round(path, origin) is None:
            content = origin.encode() + b"\n" + checkpoint_bytes(self.state)
            with suppress(OSError, RunError):  # it only saves time: the run goes on if the disk is full
                path.parent.mkdir(exist_ok=True)
                # Written in the run's own folder first: another run may be doing the same.
                os.replace(write_partial(self.folder / path.name, content), path)

    def write_results(self) -> None:
        """Write the tables of the AL rounds that are complete."""
        for name, table in TABLES.items():
            whole = table(self.state)
            self.write_table(name, whole[whole["al_round"] < self.state.al_round])

    def finish(self) -> None:
        """Mark the run as finished; the folder is not changed any more."""
        self.write_results()
        last = self.state.al_round - 1
        summary = {
            "format": FORMAT,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "al_rounds": last,
            "final_accuracy": self.state.accuracy_of(last),
            "seconds": sum(self.state.seconds.values()),
        }
        write_json(self.folder / "done.json", summary)
        self.checkpoints[1].unlink(missing_ok=True)
        self.done = True

    def close(self) -> None:
        self.lock.close()

    @property
    def checkpoints(self) -> tuple[Path, Path]:
        return self.folder / "checkpoint.pt", self.folder / "checkpoint.previous.pt"

    def load_checkpoint(self) -> State:
        current, previous = self.checkpoints
        # If save() is killed between its two renames, there is only the previous checkpoint.
        path = current if current.exists() else previous
        if not path.exists():
            self.begun_from = first_round_file(self.experiment)
            shared = read_first_round(self.begun_from, first_round_origin(self.origin))
            return replace(shared, seconds={}) if shared else State()  # the seconds are of another run
        self.begun_from = path
        state = read_checkpoint(path)
        if state is None:
            older = path == current and previous.exists()
            then = f"to go on from {previous.name}" if older else "to start anew"
            raise RunError(f"{path} is damaged; move it away and run again {then} (nothing else was touched)")
        return state

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Blame the checkpoint for a ValueError in the block, which hands its state to the clients."""
        try:
            yield
        except ValueError as error:
            raise RunError(
                f"{self.begun_from} is not a checkpoint of this run: {error}; "
                "move it away and run again to start anew (nothing else was touched)"
            ) from None

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False, write_page_checksum=True)
        write_atomically(self.folder / f"{name}.parquet", buffer.getvalue())


def in_use(folder: Path) -> bool:
    """Return whether a process holds this run folder."""
    if not (folder / LOCK).exists():
        return False
    lock = take_lock(folder / LOCK)
    if lock is not None:
        lock.close()
    return lock is None


def is_finished(experiment: Experiment) -> bool:
    """Return whether nothing is left to do; a table that was deleted has to be written again."""
    tables = all((experiment.folder / f"{name}.parquet").exists() for name in TABLES)
    return completed_rounds(experiment.folder) >= experiment.rounds and tables


def completed_rounds(folder: Path) -> int:
    """Return the AL rounds of a run that has ended, 0 for one that has not; more rounds can extend it."""
    return int(read_json(folder / "done.json", "al_rounds", 0))


def earlier_starts(folder: Path) -> list[dict[str, Any]]:
    starts = read_json(folder / "environment.json", "starts", [])
    return [start for start in starts if isinstance(start, dict)]


def set_aside_outdated(experiment: Experiment, data: str | None) -> Path | None:
    """Move the folder of a run that other data or code began out of the way; return where it is now.

    None if there is nothing to move: what is up to date resumes.
    """
    try:
        require_same_origin(experiment, data)
    except OutdatedError:
        if in_use(experiment.folder):
            raise InUseError(f"{experiment.folder} is in use by another process; stop it first") from None
        aside = experiment.runs_dir / OUTDATED
        aside.mkdir(exist_ok=True)
        count = len(list(aside.glob(f"{experiment.name}.*")))
        return experiment.folder.rename(aside / f"{experiment.name}.{count + 1}")
    return None


def require_same_origin(experiment: Experiment, data: str | None) -> dict[str, str | None]:
    """Return hashes of the dataset and of plugins' code; OutdatedError if earlier starts had others.

    A run's folder is named after the names of these: results of other data or code would look the same.
    """
    origin, titles = {"data": data}, {"data": experiment.dataset}
    for registry in REGISTRIES:
        name, options = (getattr(experiment, f"{registry.kind}{end}") for end in ("", "_options"))
        origin[f"{registry.kind}_code"] = registry.code_of(name, options)
        titles[f"{registry.kind}_code"] = f"{registry.kind} {name}"
    origin["first_code"] = STRATEGIES.code_of(experiment.first)
    titles["first_code"] = f"strategy {experiment.first}"
    codes = filter(None, map(AUGMENTATIONS.code_of, split_names(experiment.augment)))
    origin["augment_code"] = " ".join(codes) or None
    titles["augment_code"] = f"augmentation {experiment.augment}"
    for start in earlier_starts(experiment.folder):
        for what, value in origin.items():
            if start.get(what, value) != value:
                raise OutdatedError(
                    f"{titles[what]} is not the same as when {experiment.folder} was begun; "
                    "begin it anew with --fresh, or choose another --runs-dir"
                )
    return origin


def first_round_file(experiment: Experiment) -> Path:
    """Return the file of the shared state after AL round 1.

    It depends on all but the strategy, and on the models that clients remember for the strategy.
    """
    common = replace(experiment, strategy="random", selector="auto", strategy_options="")
    strategy = STRATEGIES.make(experiment.strategy, experiment.strategy_options, selector=experiment.selector)
    name = "-".join([common.hash, *sorted(strategy.remembers)])
    return experiment.runs_dir / ".first-rounds" / f"{name}.pt"


def first_round_origin(origin: Mapping[str, str | None]) -> str:
    """Return the origin of AL round 1; empty where the data are not known."""
    kinds = ("algorithm", "objective", "model", "first", "augment")
    codes = (origin[f"{kind}_code"] for kind in kinds)
    return " ".join(filter(None, (origin["data"], *codes))) if origin["data"] else ""


def read_first_round(path: Path, origin: str) -> State | None:
    """Read the shared state after AL round 1; None if it is missing, damaged or of another origin."""
    if not origin or not path.exists():
        return None
    found, _, checkpoint = path.read_bytes().partition(b"\n")
    return state_in(checkpoint) if found == origin.encode() else None


def checkpoint_bytes(state: State) -> bytes:
    buffer = io.BytesIO()
    torch.save(state.to_plain(), buffer)
    body = buffer.getvalue()
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def read_checkpoint(path: Path) -> State | None:
    """Read the state in a checkpoint; None if the file is damaged."""
    return state_in(path.read_bytes())


def state_in(checkpoint: bytes) -> State | None:
    magic, _, body = checkpoint.partition(b"\n")
    if magic != MAGIC + hashlib.sha256(body).hexdigest().encode():
        return None
    try:
        state = State.from_plain(torch.load(io.BytesIO(body), weights_only=True))
        require_whole(state)
        return state
    except UNREADABLE:  # anybody can write the checksum, too
        return None

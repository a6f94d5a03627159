"""One run of a grid: who does it, how far it has got, how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from rich.progress import TaskID

from fedactive.errors import ERROR, RunError
from fedactive.experiment import Experiment
from fedactive.laboratory.progress_file import progress_path, read_milestone
from fedactive.record.run_folder import is_finished
from fedactive.sweep.claim import claim_run

SECONDS_BETWEEN_LOOKS = 2.0  # at a run that somebody else does


class Attempt(Protocol):
    """One try to do a run, with the interface of a process."""

    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def wait(self) -> int: ...

    @property
    def lost(self) -> str:
        """How what ran it died, perhaps through no fault of the run; empty if it did not."""


@dataclass
class Job:
    """One run of the grid and how it is going."""

    experiment: Experiment
    caption: str
    attempt: Attempt | None = None  # while it is running here
    claim: TextIO | None = None  # while nobody else may run it
    elsewhere: str = ""  # who else runs it, when last looked at
    looked: float = 0.0  # when that was
    log_begins: int = 0  # where this attempt's lines begin in its log, in bytes
    begun: float | None = None  # None if never here
    losses: int = 0  # attempts that were lost
    fl_rounds: int = 0  # done, when last read
    note: str = "starting"
    failed: bool = False
    bar: TaskID | None = None  # while it is running, here or elsewhere

    @property
    def log(self) -> Path:
        return self.experiment.runs_dir / "logs" / f"{self.experiment.name}.log"

    @property
    def config(self) -> Path:
        return self.log.with_suffix(".toml")

    @property
    def done(self) -> bool:
        try:
            return is_finished(self.experiment)
        except (RunError, OSError):  # its folder is damaged or locked; the run itself will say so
            return False

    @property
    def total(self) -> int:
        return self.experiment.rounds * self.experiment.fl_rounds

    def take(self) -> bool:
        """Claim the run for this grid; False if somebody else does it, whom `elsewhere` then names."""
        self.looked = time.monotonic()
        try:
            answer = claim_run(self.experiment)
        except OSError as error:
            raise RunError(f"cannot write in {self.log.parent}: {error.strerror}") from None
        self.claim, self.elsewhere = (None, answer) if isinstance(answer, str) else (answer, "")
        return self.claim is not None

    def release(self) -> None:
        if self.claim is not None:
            self.claim.close()
        self.claim = None

    def look(self) -> None:
        """See how the run is going elsewhere, if it still is: nobody has it once its process has died."""
        self.update()
        if self.take():
            self.release()

    @property
    def due(self) -> bool:
        return time.monotonic() >= self.looked + SECONDS_BETWEEN_LOOKS

    def prepare(self, experiment: Experiment) -> None:
        """Write the configuration of an attempt that begins now."""
        try:
            self.config.write_text(experiment.to_toml(), encoding="utf-8")
            self.log.touch()
            self.log_begins = self.log.stat().st_size
            progress_path(self.experiment).unlink(missing_ok=True)  # left by an earlier attempt
        except OSError as error:
            raise RunError(f"cannot write in {self.log.parent}: {error.strerror}") from None
        self.begun = time.monotonic()

    def last_line(self) -> str:
        log = self.log.read_bytes()[self.log_begins :] if self.log.exists() else b""
        lines = log.decode(errors="replace").strip().splitlines()
        reasons = [line for line in lines if line.startswith(ERROR)]  # another process may write here too
        return (reasons or lines or ["no output"])[-1]

    def update(self) -> None:
        """Read how far the run has got."""
        milestone = read_milestone(self.experiment)
        if milestone is not None:
            self.fl_rounds = milestone.fl_rounds
            if milestone.accuracy is not None:
                al_round = f"AL {milestone.al_round}/{self.experiment.rounds}"
                self.note = f"{al_round}  accuracy {milestone.accuracy:.1%}"

"""Runs on this machine: on a CPU each is a `fedactive run` of its own, on a GPU they share a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedactive.children import environment_of_a_child
from fedactive.engines import usable_cores
from fedactive.experiment import Experiment
from fedactive.sweep.crew import Crew, Turn
from fedactive.sweep.job import Attempt, Job
from fedactive.sweep.lifeline import LIFELINE
from fedactive.sweep.placement import VISIBLE, least_busy, only_gpu, share_cores

GPU = "cuda"  # what a process calls the only one that it sees


class RunProcess(subprocess.Popen[bytes]):
    """A run in its own process. Whoever kills that means this run."""

    lost = ""


@dataclass
class Here:
    """Starts runs on this machine: on these GPUs, or on the CPU if there are none."""

    asked: int | None  # runs at a time; None chooses
    plugins: Sequence[Path] = ()
    gpus: Sequence[int] = ()
    # One per GPU and precision, which torch sets for a whole process; and one for each run that lost its own.
    crews: dict[str, Crew] = field(default_factory=dict)
    turns: list[tuple[int, Turn]] = field(default_factory=list)  # with the GPU of each
    lifeline: tuple[int, int] = field(default_factory=os.pipe)  # closes when this process ends
    retries = 1  # of a run whose process died

    def __post_init__(self) -> None:
        self.jobs = self.asked or 1

    @property
    def device(self) -> str:
        return f"cuda:{self.gpus[0]}" if self.gpus else "cpu"

    def equip(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        shared, self.jobs = share_cores(experiments, self.asked, len(self.gpus))
        return shared

    def start(self, job: Job) -> Attempt:
        return self.start_on_gpu(job) if self.gpus else self.start_process(job)

    def start_process(self, job: Job) -> RunProcess:
        job.prepare(job.experiment)
        command = [sys.executable, "-m", "fedactive", "run", "--config", str(job.config)]
        command += [word for plugin in self.plugins for word in ("--plugin", str(plugin))]
        with job.log.open("a") as log:
            return RunProcess(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=self.lifeline[0],
                env=environment_of_a_child({LIFELINE: "1", "PYTHONUNBUFFERED": "1"} | self.cores),
            )

    def start_on_gpu(self, job: Job) -> Turn:
        self.turns = [(gpu, turn) for gpu, turn in self.turns if turn.poll() is None]
        gpu = least_busy(self.gpus, [gpu for gpu, _ in self.turns])
        job.prepare(replace(job.experiment, device=GPU))
        turn = self.crew(job, gpu).start(job.config)
        self.turns.append((gpu, turn))
        return turn

    def crew(self, job: Job, gpu: int) -> Crew:
        """Return the process that runs this job there; start a new one if it has died.

        A run whose process died before has one of its own: another run may have killed it.
        """
        which = f"{job.experiment.name}-apart" if job.losses else f"{job.experiment.precision}-gpu{gpu}"
        if which not in self.crews or not self.crews[which].alive:
            threads = -(-self.jobs // len(self.gpus))  # rounded up: each GPU has as many runs, or one less
            variables = self.cores | only_gpu(gpu, os.environ.get(VISIBLE))
            log = job.log.with_name(f"crew-{which}.log")
            self.crews[which] = Crew(threads, self.plugins, log, variables)
        return self.crews[which]

    @property
    def cores(self) -> dict[str, str]:
        """The variable that gives a process its share of the cores."""
        return {"OMP_NUM_THREADS": str(max(1, usable_cores() // self.jobs))}

    def dismiss(self) -> None:
        for crew in self.crews.values():
            crew.dismiss()
        for end in self.lifeline:
            os.close(end)

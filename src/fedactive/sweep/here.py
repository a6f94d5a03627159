"""Runs on this machine: on a CPU each is a process of its own, on a GPU they share one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedactive.engines import usable_cores
from fedactive.experiment import Experiment
from fedactive.sweep.crew import Crew, Turn
from fedactive.sweep.job import Job
from fedactive.sweep.placement import VISIBLE, least_busy, only_gpu, share_cores

GPU = "cuda"  # what a process calls the only one that it sees


@dataclass
class Here:
    """Starts runs on this machine: on these GPUs, or on the CPU if there are none."""

    asked: int | None  # runs at a time; None chooses
    plugins: Sequence[Path] = ()
    gpus: Sequence[int] = ()
    # One on the CPU; one per GPU and precision, which torch sets for a whole process; one for each run that
    # lost its own.
    crews: dict[str, Crew] = field(default_factory=dict)
    turns: list[tuple[int, Turn]] = field(default_factory=list)  # with the GPU of each
    retries = 1  # of a run whose process died

    def __post_init__(self) -> None:
        self.jobs = self.asked or 1

    @property
    def device(self) -> str:
        return f"cuda:{self.gpus[0]}" if self.gpus else "cpu"

    def equip(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        shared, self.jobs = share_cores(experiments, self.asked, len(self.gpus))
        return shared

    def start(self, job: Job) -> Turn:
        return self.start_on_gpu(job) if self.gpus else self.start_on_cpu(job)

    def start_on_cpu(self, job: Job) -> Turn:
        job.prepare(job.experiment)
        program = ["fedactive.sweep.nursery", *self.plugins]
        variables = self.cores | {"PYTHONUNBUFFERED": "1"}
        return self.crew("cpu", job, program, variables).start(job.config)

    def start_on_gpu(self, job: Job) -> Turn:
        self.turns = [(gpu, turn) for gpu, turn in self.turns if turn.poll() is None]
        gpu = least_busy(self.gpus, [gpu for gpu, _ in self.turns])
        job.prepare(replace(job.experiment, device=GPU))
        # A run whose process died before has one of its own: another run may have killed it.
        name = f"{job.experiment.name}-apart" if job.losses else f"{job.experiment.precision}-gpu{gpu}"
        threads = -(-self.jobs // len(self.gpus))  # rounded up: each GPU has as many runs, or one less
        variables = self.cores | only_gpu(gpu, os.environ.get(VISIBLE))
        program = ["fedactive.sweep.crew", threads, *self.plugins]
        turn = self.crew(name, job, program, variables).start(job.config)
        self.turns.append((gpu, turn))
        return turn

    def crew(self, name: str, job: Job, program: Sequence[object], variables: Mapping[str, str]) -> Crew:
        """Return the process of that name; start a new one if it has died."""
        if name not in self.crews or not self.crews[name].alive:
            self.crews[name] = Crew(program, job.log.with_name(f"crew-{name}.log"), variables)
        return self.crews[name]

    @property
    def cores(self) -> dict[str, str]:
        """The variable that gives a process its share of the cores."""
        return {"OMP_NUM_THREADS": str(max(1, usable_cores() // self.jobs))}

    def dismiss(self) -> None:
        for crew in self.crews.values():
            crew.dismiss()

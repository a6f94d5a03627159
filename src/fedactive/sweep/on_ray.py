"""Runs on a Ray cluster, or on a Ray of our own: Ray finds each a core, or a share of a GPU.

Machines need not share a disk. A worker is sent what is known of a run and does it in a temporary folder; we
fetch the files that change. If the worker dies, another one goes on from the last checkpoint that came.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from fedactive.errors import ConfigurationError, InUseError
from fedactive.experiment import Experiment
from fedactive.files import write_atomically
from fedactive.laboratory.on_ray import check_cluster, start_ray, with_whole_paths
from fedactive.record.lock import take_lock
from fedactive.record.run_folder import LOCK
from fedactive.sweep.errand import Errand, Plugins
from fedactive.sweep.job import Attempt, Job
from fedactive.sweep.parcel import read_parcel, write_parcel
from fedactive.sweep.placement import share_cluster

SECONDS_BETWEEN_PARCELS = 2.0
SECONDS_TO_LEAVE = 5.0


class OnRay:
    """Starts runs as actors of Ray."""

    retries = 3  # of a run whose worker died

    def __init__(self, jobs: int | None, plugins: Sequence[Path], devices: Sequence[str]) -> None:
        if len(devices) != 1 or devices[0] not in ("auto", "cpu", "cuda"):
            raise ConfigurationError("device", ",".join(devices), "auto, cpu or cuda with --on ray")
        check_cluster()
        start_ray(0)
        there = ray.cluster_resources()
        self.cpus, self.gpus = int(there.get("CPU", 0)), int(there.get("GPU", 0))
        if devices == ["cuda"] and not self.gpus:
            raise ConfigurationError("device", "cuda", "auto or cpu: Ray knows of no GPU")
        if devices == ["cpu"]:
            self.gpus = 0
        self.device = "cuda" if self.gpus else "cpu"
        self.asked, self.jobs, self.share = jobs, 1, 0.0
        self.plugins = [(path.name, path.read_bytes()) for path in plugins]
        self.remarks = ExitStack()

    def equip(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        self.jobs, self.share = share_cluster(len(experiments), self.asked, self.cpus, self.gpus)
        # From here on Ray prints what it has to say of lost machines, and not among our tables.
        self.remarks.enter_context(redirect_stdout(sys.stderr))
        return [replace(e, workers=e.workers or 1) for e in experiments]

    def start(self, job: Job) -> Attempt:
        job.prepare(job.experiment)
        return RayTurn(job, self.plugins, self.share)

    def dismiss(self) -> None:
        ray.shutdown()
        self.remarks.close()


class RayTurn:
    """One run on a worker, with the interface of a process."""

    def __init__(self, job: Job, plugins: Plugins, gpu: float) -> None:
        self.runs_dir, self.log = job.experiment.runs_dir, job.log
        self.code: int | None = None
        self.lost = ""
        experiment = job.experiment
        experiment.folder.mkdir(parents=True, exist_ok=True)
        self.lock = take_lock(experiment.folder / LOCK)  # ours, since the worker is elsewhere
        if self.lock is None:
            self.code = InUseError.exit_code
            return
        write_atomically(experiment.folder / "experiment.toml", experiment.to_toml().encode())
        options = {"num_cpus": experiment.workers, "num_gpus": gpu, "max_concurrency": 2}
        config, known = with_whole_paths(experiment).to_toml(), read_parcel(experiment, {})
        errand: Any = ray.remote(Errand)
        self.actor = errand.options(**options).remote(config, known, plugins)
        self.result: Any = self.actor.run.remote()
        self.parcel: Any = None  # on its way
        self.fetched = time.monotonic()
        self.met = False  # whether the worker has answered

    def poll(self) -> int | None:
        if self.code is not None:
            return self.code
        try:
            self.fetch()
            if is_ready(self.result):
                code = ray.get(self.result)
                self.met = True
                write_parcel(self.runs_dir, ray.get(self.parcel) if self.parcel else {})
                write_parcel(self.runs_dir, ray.get(self.actor.changed.remote()))
                self.end(code)
        except RayActorError:
            self.lost = "the worker of this run died"
            self.end(1)
        except RayError as error:
            with self.log.open("a") as log:
                print(error, file=log)
            self.end(1)
        return self.code

    def fetch(self) -> None:
        """Write the files that have come, and ask for those that change next."""
        if self.parcel and is_ready(self.parcel):
            write_parcel(self.runs_dir, ray.get(self.parcel))
            self.parcel, self.fetched, self.met = None, time.monotonic(), True
        if not self.parcel and time.monotonic() >= self.fetched + SECONDS_BETWEEN_PARCELS:
            self.parcel = self.actor.changed.remote()

    def end(self, code: int) -> None:
        """End the worker, and let go of the folder."""
        self.code = code
        if self.met:  # or Ray may still look for a place for it
            with suppress(RayError):  # it may have died, or hang
                ray.get(self.actor.leave.remote(), timeout=SECONDS_TO_LEAVE)
        ray.kill(self.actor)
        if self.lock is not None:
            self.lock.close()

    def terminate(self) -> None:
        if self.code is None:
            self.end(1)

    def wait(self) -> int:
        assert self.code is not None  # a worker is ended by `terminate`, at once
        return self.code


def is_ready(answer: Any) -> bool:
    return bool(ray.wait([answer], timeout=0)[0])

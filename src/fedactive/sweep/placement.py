"""Which GPUs a grid uses, and which of them the next run gets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from fedactive.engines import choose_device, usable_cores
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment

RUNS_PER_GPU = 4  # by default
VISIBLE = "CUDA_VISIBLE_DEVICES"  # the variable of CUDA itself


def split_devices(asked: object) -> list[str]:
    """Read what --device or a configuration file says of a grid: one device, or several GPUs."""
    return [str(word).strip() for word in (asked if isinstance(asked, list) else str(asked).split(","))]


def find_gpus(devices: Sequence[str]) -> list[int]:
    """Return the numbers of the GPUs of this machine that a grid on these devices uses; none: the CPU."""
    # One that is not here is an error now. There may be GPUs that torch cannot use.
    usable = [choose_device(Experiment(device=device).device).type == "cuda" for device in devices]
    return gpus_among(devices, torch.cuda.device_count() if any(usable) else 0)


def gpus_among(devices: Sequence[str], count: int) -> list[int]:
    """Return which of `count` GPUs these devices are: `cuda` is all of them, `auto` all if there are some."""
    if len(devices) != 1 and not (devices and all(device.startswith("cuda:") for device in devices)):
        raise ConfigurationError("device", ",".join(devices), "one device, or GPUs as in cuda:0,cuda:2")
    if devices[0] == "cpu":
        return []
    if devices[0] in ("auto", "cuda"):
        return list(range(count))
    return list(dict.fromkeys(int(device.removeprefix("cuda:")) for device in devices))


def least_busy(gpus: Sequence[int], in_use: Iterable[int]) -> int:
    """Return the GPU for the next run: the one with the fewest runs now, the first of several."""
    runs = Counter(in_use)
    return min(gpus, key=lambda gpu: runs[gpu])


def only_gpu(gpu: int, visible: str | None) -> dict[str, str]:
    """Return the variable by which a process sees this GPU alone; `visible` is what we see ourselves."""
    return {VISIBLE: visible.split(",")[gpu].strip() if visible else str(gpu)}


def share_cores(
    experiments: Sequence[Experiment], jobs: int | None, gpus: int
) -> tuple[list[Experiment], int]:
    """Give each run its share of the cores, and return how many run at a time; `jobs` None chooses.

    On a CPU one run per core is fastest: clients of one run wait for each other, runs do not.
    """
    if jobs is None:
        jobs = min(RUNS_PER_GPU * gpus or usable_cores(), len(experiments))
    workers = max(1, usable_cores() // jobs)
    return [replace(e, workers=e.workers or workers) for e in experiments], jobs


def share_cluster(runs: int, jobs: int | None, cpus: int, gpus: int) -> tuple[int, float]:
    """Return how many runs a cluster does at a time, and what share of a GPU each has.

    Each needs a core. All GPUs have the same number of runs, or one less: Ray would fill one first.
    """
    most = min(cpus, RUNS_PER_GPU * gpus) if gpus else cpus
    jobs = max(1, min(runs, jobs or most))
    return jobs, 1 / math.ceil(jobs / gpus) if gpus else 0.0

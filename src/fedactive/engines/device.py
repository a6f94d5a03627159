"""The device to train on: a GPU if torch can use one, the CPU and its cores."""

from __future__ import annotations

import os
import shutil
import warnings
from functools import cache

import torch

from fedactive.errors import ConfigurationError


def choose_device(device: str) -> torch.device:
    """Return the device; `auto` is the GPU if there is one that torch can use."""
    reason = why_no_gpu()
    if device.startswith("cuda") and reason:
        raise ConfigurationError("device", device, f"auto or cpu on this machine: {reason}")
    if device.startswith("cuda:"):
        there = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        if device not in there:
            raise ConfigurationError("device", device, f"{' or '.join(there)} on this machine")
        return torch.device(device)
    if device == "auto" and reason and shutil.which("nvidia-smi"):
        warn_once(f"this machine's GPU is not used, because {reason}; training on the CPU")
    return torch.device("cpu" if reason or device == "cpu" else "cuda")


def why_no_gpu() -> str | None:
    """Say in a few words why torch cannot use a GPU; None if it can."""
    with warnings.catch_warnings(record=True) as said:  # torch warns here if the driver is too old
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return None
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    # The first sentence; what follows is advice on how to get another driver.
    return str(said[0].message).split(". ")[0] if said else "torch sees no CUDA GPU"


@cache
def warn_once(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=2)


def usable_cores() -> int:
    """Count the cores that this process may use; all cores where the system cannot tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_stream() -> torch.cuda.StreamContext:
    """Make a stream for one of several threads that train side by side.

    CUDA has only 32 streams of each priority and reuses them. Graphs are recorded on streams of normal
    priority. On one of these, the thread's work could become part of a graph that another thread records.
    """
    return torch.cuda.stream(torch.cuda.Stream(priority=-1))

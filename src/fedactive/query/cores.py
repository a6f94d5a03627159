"""Clients side by side on the cores of a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

R = TypeVar("R")


def each_on_a_core(kernel: Callable[..., R], points: Sequence[Tensor], *more: Sequence[Any]) -> list[R]:
    """Call the kernel for each client's points, on a CPU with one core for each client.

    All cores on one client would mostly wait for each other: the steps of k-means are short.
    """
    threads = min(torch.get_num_threads(), len(points))
    if threads < 2 or any(part.device.type != "cpu" for part in points):
        return list(map(kernel, points, *more))
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(kernel, points, *more))
    finally:
        torch.set_num_threads(before)  # threads that begin later take over what was set last, by any thread

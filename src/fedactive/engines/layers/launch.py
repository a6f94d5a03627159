"""A kernel with all its arguments. Buffers never move, so a step is a fixed list of launches.

Knowing the list beforehand, one can compile all kernels at once, on all cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fedactive.engines.device import usable_cores
from fedactive.engines.layers.ahead import AHEAD

GROUPS = 5  # of clients; more of them gain nothing


@dataclass(frozen=True)
class Launch:
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]  # `tl.constexpr` arguments, warps and stages

    def __call__(self) -> None:
        self.kernel[self.grid](*self.arguments, **self.constants)

    def compile(self) -> None:
        self.kernel.warmup(*self.arguments, grid=self.grid, **self.constants)

    def ahead(self) -> Launch:
        """Return the launch for a stream in which it follows another one of these."""
        return replace(self, constants=self.constants | {"launch_pdl": True}) if AHEAD.value else self

    def part(self, begin: int, end: int) -> Launch:
        """Return the launch for some of the clients: they are the first axis of tensors, the grid's last."""
        cut = (a[begin:end] if isinstance(a, Tensor) and a.dim() else a for a in self.arguments)
        return replace(self, grid=(*self.grid[:-1], end - begin), arguments=tuple(cut))

    def instead(self, old: Tensor, new: Tensor) -> Launch:
        """Return the launch with another tensor in place of this one, where it has it."""
        return replace(self, arguments=tuple(new if a is old else a for a in self.arguments))

    @property
    def variant(self) -> tuple[Any, ...]:
        """What a compiled kernel depends on, as far as a list of launches of one stack differs in it."""
        known = tuple(a.data_ptr() % 16 if isinstance(a, Tensor) else a for a in self.arguments)
        return self.kernel.__name__, known, tuple(sorted(self.constants.items()))


class Program:
    """A list of launches, to run many times.

    Clients are independent, so they are divided into groups, each of which runs on a stream of its own: while
    one group computes products, another moves memory. They wait for each other at the program's end alone.
    """

    def __init__(self, launches: Sequence[Launch], clients: int, device: torch.device) -> None:
        self.launches = launches
        self.streams: list[torch.cuda.Stream] = []
        self.groups: list[Sequence[Launch]] = [launches]
        if device.type == "cuda":
            groups = min(GROUPS, clients)
            bounds = [clients * g // groups for g in range(groups + 1)]
            first, *others = launches
            launches = [first, *(launch.ahead() for launch in others)]
            self.groups = [[launch.part(*ends) for launch in launches] for ends in pairwise(bounds)]
            self.streams = [torch.cuda.Stream() for _ in self.groups]
        self.compiled = device.type != "cuda"

    def __call__(self) -> None:
        if not self.compiled:
            compile_all(launch for group in self.groups for launch in group)
            self.compiled = True
        if not self.streams:
            for launch in self.launches:
                launch()
            return
        home = torch.cuda.current_stream()
        for stream in self.streams:
            stream.wait_stream(home)
        for of_groups in zip(*self.groups, strict=True):
            for launch, stream in zip(of_groups, self.streams, strict=True):
                with torch.cuda.stream(stream):
                    launch()
        for stream in self.streams:
            home.wait_stream(stream)


def compile_all(launches: Iterable[Launch]) -> None:
    """Compile every kernel once, in as many threads as there are cores; most of it is not Python."""
    variants = {launch.variant: launch for launch in launches}.values()
    with ThreadPoolExecutor(usable_cores()) as pool:
        for done in [pool.submit(launch.compile) for launch in variants]:
            done.result()

"""A kernel with all its arguments. Buffers never move, so a step is a fixed list of launches.

Knowing the list beforehand, one can compile all kernels at once, on all cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from fedactive.engines.device import usable_cores


@dataclass(frozen=True)
class Launch:
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]  # `tl.constexpr` arguments, warps and stages
    aside: bool = False  # nothing before the end of the list needs its result

    def __call__(self) -> None:
        self.kernel[self.grid](*self.arguments, **self.constants)

    def compile(self) -> None:
        self.kernel.warmup(*self.arguments, grid=self.grid, **self.constants)

    @property
    def variant(self) -> tuple[Any, ...]:
        """What a compiled kernel depends on, as far as a list of launches of one stack differs in it."""
        known = tuple(a for a in self.arguments if isinstance(a, int))
        return self.kernel.__name__, known, tuple(sorted(self.constants.items()))


class Program:
    """A list of launches, to run many times."""

    def __init__(self, launches: Sequence[Launch], device: torch.device) -> None:
        self.launches = launches
        self.side = torch.cuda.Stream() if device.type == "cuda" else None
        self.compiled = device.type != "cuda"

    def __call__(self) -> None:
        """Start the kernels in order; on a GPU those that may run aside on a stream of their own."""
        if not self.compiled:
            compile_all(self.launches)
            self.compiled = True
        home = torch.cuda.current_stream() if self.side else None
        for launch in self.launches:
            if launch.aside and self.side and home:
                self.side.wait_stream(home)
                with torch.cuda.stream(self.side):
                    launch()
            else:
                launch()
        if self.side and home:
            home.wait_stream(self.side)


def compile_all(launches: Iterable[Launch]) -> None:
    """Compile every kernel once, in as many threads as there are cores; most of it is not Python."""
    variants = {launch.variant: launch for launch in launches}.values()
    with ThreadPoolExecutor(usable_cores()) as pool:
        for done in [pool.submit(launch.compile) for launch in variants]:
            done.result()

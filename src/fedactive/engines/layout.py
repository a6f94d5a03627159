"""The layout of a model's tensors in one long row; each client has one such row."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedactive.federated.weights import Weights

ALIGNMENT = 64  # elements: every tensor begins at an address that wide loads can use


@dataclass(frozen=True)
class RowLayout:
    """The position of each tensor in a row."""

    places: dict[str, tuple[int, torch.Size]]
    length: int
    turned: frozenset[str] = frozenset()  # those whose first axis is innermost: filters of one channel each

    @staticmethod
    def of(tensors: Iterable[tuple[str, Tensor]], turned: Iterable[str] = ()) -> RowLayout:
        places: dict[str, tuple[int, torch.Size]] = {}
        end = 0
        for name, value in tensors:
            places[name] = (end, value.shape)
            end += math.ceil(value.numel() / ALIGNMENT) * ALIGNMENT
        return RowLayout(places, end, frozenset(turned))

    @cached_property
    def strides(self) -> dict[str, tuple[int, ...]]:
        """The strides of each tensor; channels last. Computed once: every FL round views all tensors."""
        strides = {name: channels_last(shape) for name, (_, shape) in self.places.items()}
        for name in self.turned:
            outputs = self.places[name][1][0]
            strides[name] = (1, *(outputs * stride for stride in strides[name][1:]))
        return strides

    def view(self, rows: Tensor, name: str) -> Tensor:
        """View the tensor of that name in a row or, with clients in front, in all rows."""
        begin, shape = self.places[name]
        # In one operation instead of four: there are many names.
        strides = rows.stride()[:-1] + self.strides[name]
        return rows.as_strided(rows.shape[:-1] + shape, strides, rows.storage_offset() + begin)

    def views(self, row: Tensor) -> Weights:
        return {name: self.view(row, name) for name in self.places}

    def spans(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Return the columns that these tensors cover, as few beginnings and ends."""
        spans: list[tuple[int, int]] = []
        for begin, shape in sorted(self.places[name] for name in names):
            end = begin + math.ceil(shape.numel() / ALIGNMENT) * ALIGNMENT
            if spans and spans[-1][1] == begin:
                begin = spans.pop()[0]
            spans.append((begin, end))
        return spans

    def pack(self, weights: Weights, row: Tensor) -> None:
        """Write those of these weights that are part of the layout into a row."""
        views = {name: view for name, view in self.views(row).items() if name in weights}
        if views:
            torch._foreach_copy_(list(views.values()), [weights[name] for name in views])


def channels_last(shape: torch.Size) -> tuple[int, ...]:
    """Return the strides of a tensor of that shape, with channels of convolutions innermost."""
    if len(shape) == 4:
        _, into, height, width = shape
        return (height * width * into, 1, width * into, into)
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))

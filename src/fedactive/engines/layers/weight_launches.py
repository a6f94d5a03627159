"""The launches that compute the gradient of a convolution's weights, in parts, and their sum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

from fedactive.engines.layers import tiles
from fedactive.engines.layers.convolution import weight_gradient
from fedactive.engines.layers.depthwise import each_weight_gradient
from fedactive.engines.layers.launch import Launch
from fedactive.engines.layers.network import Convolution
from fedactive.engines.layers.sums import sum_launch

if TYPE_CHECKING:
    from fedactive.engines.layers.stack import LayerStack


def weight_launches(stack: LayerStack, step: Convolution) -> list[Launch]:
    return of_each(stack, step) if step.depthwise else of_all(stack, step)


def of_all(stack: LayerStack, step: Convolution) -> list[Launch]:
    known = stack.geometry(step) | stack.channels(step)
    size, into, out_of = known["SIZE"], known["INTO"], known["OUT_OF"]
    tile = tiles.weights(stack.dtype(), into, out_of, size)
    parts = tiles.weight_parts(tile, into, out_of, size, stack.width, stack.positions(step.shape))
    values = stack.layout.places[step.weight][1].numel()
    result, lengths = stack.layout.view(stack.gradient, step.weight), (stack.layout.length, 0)
    if parts > 1:
        result = stack.scratch(parts, values)
        lengths = (result.stride(0), values)
    rows = math.ceil(out_of / tile["M"]) * math.ceil(into / tile["N"]) * size
    arguments = (stack.input_of(step), stack.raw[step.number], result, *lengths)
    launch = Launch(weight_gradient, (rows, parts, stack.width), arguments, known | tile | stack.precision)
    return [launch, sum_of(stack, step, result)] if parts > 1 else [launch]


def of_each(stack: LayerStack, step: Convolution) -> list[Launch]:
    channels = step.shape.channels
    tile = tiles.depthwise_weights(channels, stack.positions(step.shape))
    parts, columns, clients = stack.grid(step.shape, tile)
    result = stack.scratch(parts, step.size**2 * channels)
    known = stack.geometry(step) | {"CHANNELS": channels} | tile
    arguments = (stack.input_of(step), stack.raw[step.number], result, result.stride(0))
    launch = Launch(each_weight_gradient, (parts, columns * step.size, clients), arguments, known)
    return [launch, sum_of(stack, step, result)]


def sum_of(stack: LayerStack, step: Convolution, parts: Tensor) -> Launch:
    result = stack.layout.view(stack.gradient, step.weight)
    return sum_launch(parts, result, stack.layout.length, stack.width)

"""The launches of a forward pass, from the images to the embedding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fedactive.engines.layers import convolution, depthwise, ends, tiles
from fedactive.engines.layers.join import join
from fedactive.engines.layers.launch import Launch
from fedactive.engines.layers.network import Convolution, Join
from fedactive.engines.layers.norm import statistics
from fedactive.engines.layers.pool import pool

if TYPE_CHECKING:
    from fedactive.engines.layers.stack import LayerStack


def forward_launches(stack: LayerStack) -> list[Launch]:
    launches = [first_patches(stack)]
    steps = stack.network.steps
    if stack.first:
        launches += stack.first.forward()
        steps = steps[2:]
    for step in steps:
        if isinstance(step, Convolution):
            launches += convolve(stack, step)
        else:
            launches.append(pooled(stack, step) if step.pooled else joined(stack, step))
    return [*launches, embed(stack)]


def first_patches(stack: LayerStack) -> Launch:
    """Spread the patches of the images out, for the first convolution."""
    image, first, block = stack.network.image, stack.network.steps[0], 128
    assert isinstance(first, Convolution)
    return Launch(
        ends.patches, (math.ceil(first.shape.area / block), stack.recipe.batch_size, stack.width),
        (stack.batch, stack.patches),
        {"HEIGHT": image.height, "BREADTH": image.breadth, "INTO": image.channels, "SIZE": first.size,
         "STRIDE": first.stride, "PATCH": stack.network.patch, "BLOCK": block},
    )  # fmt: skip


def convolve(stack: LayerStack, step: Convolution) -> list[Launch]:
    """Convolve, with sums for BatchNorm, and compute scale and shift from these."""
    mean, variance = (
        stack.buffer_layout.view(stack.statistics, f"{step.norm}.{name}")
        for name in ("running_mean", "running_var")
    )
    kernel: Any
    known: dict[str, Any]
    if step.depthwise:
        tile = tiles.depthwise(step.shape.channels, step.stride)
        grid = stack.grid(step.shape, tile)
        blocks = grid[0]
        kernel, known, weights = depthwise.convolve_each, {"CHANNELS": step.shape.channels}, stack.parameters
    else:
        tile = stack.product_tile(step, back=False)
        blocks = math.ceil(stack.positions(step.shape) / tile["M"])
        grid = (math.ceil(step.shape.channels / tile["N"]), blocks, stack.width)
        kernel, known, weights = convolution.convolve, stack.channels(step) | stack.precision, stack.rounded
    sums = stack.zeros(blocks, 2, step.shape.channels)
    lengths = (stack.layout.length, stack.buffer_layout.length)
    weight = stack.layout.view(weights, step.weight)
    arguments = (stack.input_of(step), weight, stack.here, mean, stack.raw[step.number], sums, *lengths)
    own = [
        stack.layout.view(stack.parameters, name)
        for name in (step.bias or f"{step.norm}.bias", f"{step.norm}.weight", f"{step.norm}.bias")
    ]
    counter, channels = stack.buffers[f"{step.norm}.num_batches_tracked"], step.shape.channels
    sum_tile = tiles.sums(channels)
    return [
        Launch(kernel, grid, arguments, stack.geometry(step) | known | tile),
        Launch(
            statistics, (math.ceil(channels / sum_tile["C"]), stack.width),
            (sums, blocks, stack.here, *own, mean, variance, counter, stack.norm[step.number], *lengths),
            {"AREA": step.shape.area, "CHANNELS": channels, "BIASED": step.bias is not None}
            | stack.batches | sum_tile,
        ),
    ]  # fmt: skip


def joined(stack: LayerStack, step: Join) -> Launch:
    first, *second = step.raw
    other, norm, kind = stack.raw[first], stack.norm[first], ""
    if second:
        other, norm, kind = stack.raw[second[0]], stack.norm[second[0]], "raw"
    elif step.other is not None:
        other, kind = stack.maps[step.other], "map"
    tile = tiles.elementwise(step.shape.channels)
    return Launch(
        join, stack.grid(step.shape, tile),
        (stack.raw[first], stack.norm[first], other, norm, stack.maps[step.number],
         stack.positions(step.shape)),
        {"CHANNELS": step.shape.channels, "OTHER": kind, "RELU": step.relu} | tile,
    )  # fmt: skip


def pooled(stack: LayerStack, step: Join) -> Launch:
    tile = tiles.elementwise(step.shape.channels, values=2048)
    return Launch(
        pool, stack.grid(step.shape, tile),
        (stack.raw[step.raw[0]], stack.norm[step.raw[0]], stack.maps[step.number]),
        pool_constants(stack, step) | tile,
    )  # fmt: skip


def pool_constants(stack: LayerStack, step: Join) -> dict[str, Any]:
    full = stack.network.convolution(step.raw[0]).shape
    sizes = {"BATCH": stack.recipe.batch_size, "HEIGHT": full.height, "BREADTH": full.breadth}
    return sizes | {"CHANNELS": full.channels, "RELU": step.relu}


def embed(stack: LayerStack) -> Launch:
    last = stack.network.last
    tile = embed_tile(stack)
    grid = (math.ceil(last.shape.channels / tile["C"]), stack.recipe.batch_size, stack.width)
    return Launch(ends.embed, grid, (stack.maps[last.number], stack.z), tile)


def embed_tile(stack: LayerStack) -> tiles.Tile:
    shape = stack.network.last.shape
    places = tiles.power(shape.area)
    width = min(tiles.power(shape.channels), max(1, tiles.VALUES // places))
    return {"AREA": shape.area, "CHANNELS": shape.channels, "MEAN": stack.network.tail == "mean",
            "PLACES": places, "C": width}  # fmt: skip

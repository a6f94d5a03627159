"""What stands between two convolutions, in one pass over the map: normalise, add, apply ReLU; and backwards.

Maps are (clients, positions, channels), positions are those of all images of a batch. A program works on
BLOCK positions and C channels of one client.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.norm import INVERSE, MEAN, MEAN_DZ, SCALE, SHIFT, SLOPE, put_sums, row


@triton.jit
def join(y, norm, other, other_norm, out, positions, CHANNELS: tl.constexpr, OTHER: tl.constexpr,
         RELU: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    """Compute relu(scale·y + shift + other); OTHER: "" for nothing, "map", or "raw" for one to normalise."""
    wait_for_the_last()
    client = tl.program_id(2)
    m, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    there = (m < positions)[:, None] & (c < CHANNELS)[None, :]
    place = (client * positions + m)[:, None] * CHANNELS + c[None, :]
    scale, shift = row(norm, client, SCALE, c, CHANNELS), row(norm, client, SHIFT, c, CHANNELS)
    z = tl.load(y + place, mask=there, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    if OTHER == "map":
        z += tl.load(other + place, mask=there, other=0.0).to(tl.float32)
    if OTHER == "raw":
        scale = row(other_norm, client, SCALE, c, CHANNELS)
        shift = row(other_norm, client, SHIFT, c, CHANNELS)
        z += tl.load(other + place, mask=there, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    tl.store(out + place, relu(z, RELU).to(out.dtype.element_ty), mask=there)


@triton.jit
def relu(z, RELU: tl.constexpr):
    if RELU != "":
        z = tl.maximum(z, 0.0)
    if RELU == "relu6":
        z = tl.minimum(z, 6.0)
    return z


@triton.jit
def gate(d, place, there, out, y, norm, client, c, CHANNELS: tl.constexpr, RELU: tl.constexpr,
         ALONE: tl.constexpr):
    """Turn the gradient of a join's output into dz, that before its ReLU; return dz and x̂.

    ALONE: the join adds nothing to the raw map, so whether ReLU let a value pass follows from y.
    """
    value = tl.load(y + place, mask=there, other=0.0).to(tl.float32)
    if RELU != "":
        if ALONE:
            scale, shift = row(norm, client, SCALE, c, CHANNELS), row(norm, client, SHIFT, c, CHANNELS)
            z = value * scale[None, :] + shift[None, :]
        else:
            z = tl.load(out + place, mask=there, other=0.0).to(tl.float32)
        passed = z > 0
        if RELU == "relu6":
            passed = passed & (z < 6)
        d = tl.where(passed, d, 0.0)
    d = tl.where(there, d, 0.0)
    mean, inverse = row(norm, client, MEAN, c, CHANNELS), row(norm, client, INVERSE, c, CHANNELS)
    return d, (value - mean[None, :]) * inverse[None, :]


@triton.jit
def gate_map(d, other, out, y, norm, partial, dz, positions, CHANNELS: tl.constexpr, ADD: tl.constexpr,
             GATE: tl.constexpr, RELU: tl.constexpr, ALONE: tl.constexpr, BLOCK: tl.constexpr,
             C: tl.constexpr):
    """Add up one or two gradients of a map; GATE: and turn them into that of its join."""
    wait_for_the_last()
    client, block = tl.program_id(2), tl.program_id(0)
    m, c = block * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    there = (m < positions)[:, None] & (c < CHANNELS)[None, :]
    place = (client * positions + m)[:, None] * CHANNELS + c[None, :]
    total = tl.load(d + place, mask=there, other=0.0).to(tl.float32)
    if ADD:
        total += tl.load(other + place, mask=there, other=0.0).to(tl.float32)
    if GATE:
        total, x_hat = gate(total, place, there, out, y, norm, client, c, CHANNELS, RELU, ALONE)
        block += client * tl.num_programs(0)
        put_sums(tl.sum(total, 0), tl.sum(total * x_hat, 0), partial, block, c, CHANNELS)
    tl.store(dz + place, total.to(dz.dtype.element_ty), mask=there)


@triton.jit
def gradient_sums(dz, y, norm, partial, positions, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
                  C: tl.constexpr):
    """Sum dz and dz·x̂ for the second raw map of a join."""
    wait_for_the_last()
    client, block = tl.program_id(2), tl.program_id(0)
    m, c = block * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    there = (m < positions)[:, None] & (c < CHANNELS)[None, :]
    place = (client * positions + m)[:, None] * CHANNELS + c[None, :]
    value = tl.load(y + place, mask=there, other=0.0).to(tl.float32)
    d = tl.load(dz + place, mask=there, other=0.0).to(tl.float32)
    mean, inverse = row(norm, client, MEAN, c, CHANNELS), row(norm, client, INVERSE, c, CHANNELS)
    x_hat = (value - mean[None, :]) * inverse[None, :]
    block += client * tl.num_programs(0)
    put_sums(tl.sum(d, 0), tl.sum(d * x_hat, 0), partial, block, c, CHANNELS)


@triton.jit
def spread(dz, norm, present, y, positions, AREA: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
           C: tl.constexpr):
    """Overwrite y by its gradient  dy = scale·(dz - mean(dz) - x̂·mean(dz·x̂)),  0 in empty rows."""
    wait_for_the_last()
    client = tl.program_id(2)
    m, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    there = (m < positions)[:, None] & (c < CHANNELS)[None, :]
    images = positions // AREA
    here = tl.load(present + client * images + m // AREA, mask=m < positions, other=0) > 0
    place = (client * positions + m)[:, None] * CHANNELS + c[None, :]
    value = tl.load(y + place, mask=there, other=0.0).to(tl.float32)
    d = tl.load(dz + place, mask=there, other=0.0).to(tl.float32)
    mean, inverse = row(norm, client, MEAN, c, CHANNELS), row(norm, client, INVERSE, c, CHANNELS)
    scale, slope = row(norm, client, SCALE, c, CHANNELS), row(norm, client, SLOPE, c, CHANNELS)
    x_hat = (value - mean[None, :]) * inverse[None, :]
    dy = scale[None, :] * (d - row(norm, client, MEAN_DZ, c, CHANNELS)[None, :] - x_hat * slope[None, :])
    dy = tl.where(here[:, None], dy, 0.0)
    tl.store(y + place, dy.to(y.dtype.element_ty), mask=there)

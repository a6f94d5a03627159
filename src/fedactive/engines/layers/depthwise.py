"""Depthwise convolutions, one filter for each channel, with stride 1 or 2, for all clients.

They do little arithmetic: what counts is that each map is read once. Neighbours come from the cache. Weights
are (clients, channels, taps). A program computes BLOCK positions x C channels.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.join import gate
from fedactive.engines.layers.norm import put_sums


@triton.jit
def convolve_each(x, weight, present, y, partial, length, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
                  BREADTH: tl.constexpr, CHANNELS: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr,
                  BLOCK: tl.constexpr, C: tl.constexpr):
    block, client = tl.program_id(0), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    m, c = block * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    there, real = m < BATCH * high * broad, c < CHANNELS
    image = client * BATCH + m // (high * broad)
    h, w = m // broad % high * STRIDE - SIZE // 2, m % broad * STRIDE - SIZE // 2
    total = tl.zeros((BLOCK, C), tl.float32)
    for tap in tl.static_range(SIZE * SIZE):
        down, right = h + tap // SIZE, w + tap % SIZE
        inside = there & (down.to(tl.uint32) < HEIGHT) & (right.to(tl.uint32) < BREADTH)
        place = ((image * HEIGHT + down) * BREADTH + right)[:, None] * CHANNELS + c[None, :]
        value = tl.load(x + place, mask=inside[:, None] & real[None, :], other=0.0).to(tl.float32)
        factor = tl.load(weight + client * length + c * (SIZE * SIZE) + tap, mask=real, other=0.0)
        total += value * factor.to(tl.float32)[None, :]
    place = (client * BATCH * high * broad + m)[:, None] * CHANNELS + c[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=there[:, None] & real[None, :])
    here = (tl.load(present + image, mask=there, other=0) > 0).to(tl.float32)
    put_sums(total, here, partial, client * tl.num_programs(0) + block, c, CHANNELS)


@triton.jit
def convolve_each_back(dy, x, weight, other, dx, d_weight, out, y, norm, partial, length, BATCH: tl.constexpr,
                       HEIGHT: tl.constexpr, BREADTH: tl.constexpr, CHANNELS: tl.constexpr,
                       SIZE: tl.constexpr, STRIDE: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr,
                       RELU: tl.constexpr, ALONE: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    """Compute the gradient of the input, and of the weights in parts: both need the same values of dy.

    ADD: plus another gradient of the same map. GATE: turned into that of the map's join (see there).
    """
    block, client = tl.program_id(0), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    m, c = block * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    there, real = m < BATCH * HEIGHT * BREADTH, c < CHANNELS
    image = client * BATCH + m // (HEIGHT * BREADTH)
    h, w = m // BREADTH % HEIGHT + SIZE // 2, m % BREADTH + SIZE // 2
    place = (client * BATCH * HEIGHT * BREADTH + m)[:, None] * CHANNELS + c[None, :]
    known = there[:, None] & real[None, :]
    own = tl.load(x + place, mask=known, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK, C), tl.float32)
    part = d_weight + ((client * tl.num_programs(0) + block) * CHANNELS + c) * (SIZE * SIZE)
    for tap in tl.static_range(SIZE * SIZE):
        up, left = h - tap // SIZE, w - tap % SIZE  # STRIDE times the place in dy
        inside = there & (up >= 0) & (left >= 0) & (up % STRIDE == 0) & (left % STRIDE == 0)
        up, left = up // STRIDE, left // STRIDE
        inside = inside & (up < high) & (left < broad)
        source = ((image * high + up) * broad + left)[:, None] * CHANNELS + c[None, :]
        d = tl.load(dy + source, mask=inside[:, None] & real[None, :], other=0.0).to(tl.float32)
        factor = tl.load(weight + client * length + c * (SIZE * SIZE) + tap, mask=real, other=0.0)
        total += d * factor.to(tl.float32)[None, :]
        tl.store(part + tap, tl.sum(d * own, 0), mask=real)
    if ADD:
        total += tl.load(other + place, mask=known, other=0.0).to(tl.float32)
    if GATE:
        total = gate(total, place, known, out, y, norm, partial, client,
                     client * tl.num_programs(0) + block, c, CHANNELS, RELU, ALONE)
    tl.store(dx + place, total.to(dx.dtype.element_ty), mask=known)

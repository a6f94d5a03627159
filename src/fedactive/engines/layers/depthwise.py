"""Depthwise convolutions, one filter for each channel, with stride 1 or 2, for all clients.

They do little arithmetic: what counts is that each map is read once. Neighbours come from the cache. Weights
are (clients, taps, channels). A program goes through STEPS blocks of BLOCK positions x C channels.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.join import gate
from fedactive.engines.layers.norm import put_sums


@triton.jit
def convolve_each(x, weight, present, pivot, y, partial, length, pivot_length, BATCH: tl.constexpr,
                  HEIGHT: tl.constexpr, BREADTH: tl.constexpr, CHANNELS: tl.constexpr, SIZE: tl.constexpr,
                  STRIDE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    """Convolve, and store the sums of y and y² around a pivot, in parts."""
    wait_for_the_last()
    part, client = tl.program_id(0), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    c = tl.program_id(1) * C + tl.arange(0, C)
    real = (c < CHANNELS)[None, :]
    weight += client * length + c[None, :]
    around = tl.load(pivot + client * pivot_length + c, mask=c < CHANNELS, other=0.0)
    sums = tl.zeros((BLOCK, C), tl.float32)
    squares = tl.zeros((BLOCK, C), tl.float32)
    for step in range(STEPS):
        m = (part * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        there = m < BATCH * high * broad
        image = client * BATCH + m // (high * broad)
        h, w = m // broad % high * STRIDE - SIZE // 2, m % broad * STRIDE - SIZE // 2
        corner = x + ((image * HEIGHT + h) * BREADTH + w)[:, None] * CHANNELS + c[None, :]
        total = tl.zeros((BLOCK, C), tl.float32)
        for tap in tl.static_range(SIZE * SIZE):
            down, right = h + tap // SIZE, w + tap % SIZE
            inside = there & (down.to(tl.uint32) < HEIGHT) & (right.to(tl.uint32) < BREADTH)
            place = corner + (tap // SIZE * BREADTH + tap % SIZE) * CHANNELS
            value = tl.load(place, mask=inside[:, None] & real, other=0.0).to(tl.float32)
            factor = tl.load(weight + tap * CHANNELS, mask=real, other=0.0)
            total += value * factor
        place = (client * BATCH * high * broad + m)[:, None] * CHANNELS + c[None, :]
        tl.store(y + place, total.to(y.dtype.element_ty), mask=there[:, None] & real)
        here = tl.load(present + image, mask=there, other=0) > 0
        off = tl.where(here[:, None], total - around[None, :], 0.0)
        sums += off
        squares += off * off
    part += client * tl.num_programs(0)
    put_sums(tl.sum(sums, 0), tl.sum(squares, 0), partial, part, c, CHANNELS)


@triton.jit
def convolve_each_back(dy, weight, other, dx, out, y, norm, partial, length, BATCH: tl.constexpr,
                       HEIGHT: tl.constexpr, BREADTH: tl.constexpr, CHANNELS: tl.constexpr,
                       SIZE: tl.constexpr, STRIDE: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr,
                       RELU: tl.constexpr, ALONE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
                       C: tl.constexpr):
    """Compute the gradient of the input.

    ADD: plus another gradient of the same map. GATE: turned into that of the map's join (see there). With
    stride 2, positions of one parity meet the same taps, so a program has positions of one parity only.
    """
    wait_for_the_last()
    part, client = tl.program_id(0), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    parity = part % (STRIDE * STRIDE)
    odd, odd_too = parity // STRIDE, parity % STRIDE
    c = tl.program_id(1) * C + tl.arange(0, C)
    real = (c < CHANNELS)[None, :]
    weight += client * length + c[None, :]
    sums = tl.zeros((BLOCK, C), tl.float32)
    sums_x = tl.zeros((BLOCK, C), tl.float32)
    for step in range(STEPS):
        m = (part // (STRIDE * STRIDE) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        image = client * BATCH + m // (high * broad)
        h, w = m // broad % high, m % broad  # in dy
        there = (m < BATCH * high * broad) & (h * STRIDE + odd < HEIGHT) & (w * STRIDE + odd_too < BREADTH)
        own = dy + ((image * high + h) * broad + w)[:, None] * CHANNELS + c[None, :]
        total = tl.zeros((BLOCK, C), tl.float32)
        for tap in tl.static_range(SIZE * SIZE):
            down, right = odd + SIZE // 2 - tap // SIZE, odd_too + SIZE // 2 - tap % SIZE
            if (down % STRIDE == 0) & (right % STRIDE == 0):
                up, left = h + down // STRIDE, w + right // STRIDE
                inside = there & (up.to(tl.uint32) < high) & (left.to(tl.uint32) < broad)
                place = own + (down // STRIDE * broad + right // STRIDE) * CHANNELS
                d = tl.load(place, mask=inside[:, None] & real, other=0.0).to(tl.float32)
                factor = tl.load(weight + tap * CHANNELS, mask=real, other=0.0)
                total += d * factor
        position = (image * HEIGHT + h * STRIDE + odd) * BREADTH + w * STRIDE + odd_too
        place = position[:, None] * CHANNELS + c[None, :]
        known = there[:, None] & real
        if ADD:
            total += tl.load(other + place, mask=known, other=0.0).to(tl.float32)
        if GATE:
            total, x_hat = gate(total, place, known, out, y, norm, client, c, CHANNELS, RELU, ALONE)
            sums += total
            sums_x += total * x_hat
        tl.store(dx + place, total.to(dx.dtype.element_ty), mask=known)
    if GATE:
        part += client * tl.num_programs(0)
        put_sums(tl.sum(sums, 0), tl.sum(sums_x, 0), partial, part, c, CHANNELS)


@triton.jit
def each_weight_gradient(x, dy, partial, client_length, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
                         BREADTH: tl.constexpr, CHANNELS: tl.constexpr, SIZE: tl.constexpr,
                         STRIDE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    """Sum dy·x over one part of the positions, for one row of up to five taps."""
    wait_for_the_last()
    part, client = tl.program_id(0), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    down = tl.program_id(1) % SIZE
    c = tl.program_id(1) // SIZE * C + tl.arange(0, C)
    real = (c < CHANNELS)[None, :]
    sums_0 = tl.zeros((BLOCK, C), tl.float32)
    sums_1 = tl.zeros((BLOCK, C), tl.float32)
    sums_2 = tl.zeros((BLOCK, C), tl.float32)
    sums_3 = tl.zeros((BLOCK, C), tl.float32)
    sums_4 = tl.zeros((BLOCK, C), tl.float32)
    for step in range(STEPS):
        m = (part * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        there = m < BATCH * high * broad
        image = client * BATCH + m // (high * broad)
        h, w = m // broad % high * STRIDE - SIZE // 2 + down, m % broad * STRIDE - SIZE // 2
        place = (client * BATCH * high * broad + m)[:, None] * CHANNELS + c[None, :]
        d = tl.load(dy + place, mask=there[:, None] & real, other=0.0).to(tl.float32)
        row = x + ((image * HEIGHT + h) * BREADTH + w)[:, None] * CHANNELS + c[None, :]
        for tap in tl.static_range(SIZE):
            inside = there & (h.to(tl.uint32) < HEIGHT) & ((w + tap).to(tl.uint32) < BREADTH)
            product = d * tl.load(row + tap * CHANNELS, mask=inside[:, None] & real, other=0.0).to(tl.float32)
            if tap == 0:
                sums_0 += product
            elif tap == 1:
                sums_1 += product
            elif tap == 2:
                sums_2 += product
            elif tap == 3:
                sums_3 += product
            else:
                sums_4 += product
    place = partial + client * client_length + (part * SIZE + down) * SIZE * CHANNELS + c
    for tap in tl.static_range(SIZE):
        total = sums_0 if tap == 0 else (sums_1 if tap == 1 else (sums_2 if tap == 2 else (
            sums_3 if tap == 3 else sums_4)))
        tl.store(place + tap * CHANNELS, tl.sum(total, 0), mask=c < CHANNELS)

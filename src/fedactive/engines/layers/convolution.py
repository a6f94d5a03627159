"""Convolutions 3x3 and 1x1 with stride 1 or 2, for all clients, as products of matrices without storing them.

Maps are (clients, batch, height, breadth, channels), weights (clients, outputs, taps, inputs). A program
computes M positions x N channels; the sum over taps and channels goes K at a time. TURNED: as the transpose,
because the tensor cores read less memory for a product that is broad than for one that is high.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.join import gate
from fedactive.engines.layers.norm import put_sums


@triton.jit
def product(a, b, total, PRECISION: tl.constexpr):
    """Compute total + a·b for operands that are not in the memory order that the tensor cores need.

    They can transpose 16-bit numbers, not 32-bit ones. So a TF32 product is made of three bfloat16 products:
    two bfloat16 numbers carry 16 bits of a number, TF32 carries 11.
    """
    if PRECISION == "tf32" and a.dtype == tl.float32:
        a_high, b_high = a.to(tl.bfloat16), b.to(tl.bfloat16)
        a_low = (a - a_high.to(tl.float32)).to(tl.bfloat16)
        b_low = (b - b_high.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(a_low, b_high, total)
        total = tl.dot(a_high, b_low, total)
        total = tl.dot(a_high, b_high, total)
    else:
        total = tl.dot(a, b, total, input_precision=PRECISION)
    return total


@triton.jit
def convolve(x, work, present, pivot, y, partial, length, pivot_length, BATCH: tl.constexpr,
             HEIGHT: tl.constexpr, BREADTH: tl.constexpr, INTO: tl.constexpr, OUT_OF: tl.constexpr,
             TAPPED: tl.constexpr, SIZE: tl.constexpr, STRIDE: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             K: tl.constexpr, TURNED: tl.constexpr, PRECISION: tl.constexpr):
    """Convolve a map of INTO channels, of which the weights know the first TAPPED, to OUT_OF channels.

    For BatchNorm it stores the sums of y and y² around a pivot, in parts.
    """
    wait_for_the_last()
    block, client = tl.program_id(1), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    chunks: tl.constexpr = (INTO + K - 1) // K
    m = block * M + tl.arange(0, M)
    there = m < BATCH * high * broad
    image = client * BATCH + m // (high * broad)
    h, w = m // broad % high * STRIDE - SIZE // 2, m % broad * STRIDE - SIZE // 2
    n, c = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, K)
    corner = (image * HEIGHT + h) * BREADTH + w
    weights = work + client * length + n[:, None] * (SIZE * SIZE * TAPPED)
    total = tl.zeros((N, M) if TURNED else (M, N), tl.float32)
    for k in range(SIZE * SIZE * chunks):
        tap, i = k // chunks, k % chunks * K + c
        down, right = tap // SIZE, tap % SIZE
        inside = there
        if SIZE > 1:  # a negative number is a large one without its sign
            inside = there & ((h + down).to(tl.uint32) < HEIGHT) & ((w + right).to(tl.uint32) < BREADTH)
        place = (corner + down * BREADTH + right)[:, None] * INTO + i[None, :]
        if INTO % K == 0:
            values = tl.load(x + place, mask=inside[:, None], other=0.0)
        else:
            values = tl.load(x + place, mask=inside[:, None] & (i < INTO)[None, :], other=0.0)
        if TAPPED % K == 0 and OUT_OF % N == 0:
            factors = tl.load(weights + tap * TAPPED + i[None, :])
        else:
            known = (n < OUT_OF)[:, None] & (i < TAPPED)[None, :]
            factors = tl.load(weights + tap * TAPPED + i[None, :], mask=known, other=0.0)
        if TURNED:
            total = tl.dot(factors, tl.trans(values), total, input_precision=PRECISION)
        else:
            total = tl.dot(values, tl.trans(factors), total, input_precision=PRECISION)
    if TURNED:
        total = tl.trans(total)
    place = (client * BATCH * high * broad + m)[:, None] * OUT_OF + n[None, :]
    real = there[:, None] & (n < OUT_OF)[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=real)
    here = (tl.load(present + image, mask=there, other=0) > 0)[:, None]
    around = tl.load(pivot + client * pivot_length + n, mask=n < OUT_OF, other=0.0)
    off = tl.where(here, total - around[None, :], 0.0)
    block += client * tl.num_programs(1)
    put_sums(tl.sum(off, 0), tl.sum(off * off, 0), partial, block, n, OUT_OF)


@triton.jit
def convolve_back(dy, work, other, dx, out, y, norm, partial, length, BATCH: tl.constexpr,
                  HEIGHT: tl.constexpr, BREADTH: tl.constexpr, INTO: tl.constexpr, OUT_OF: tl.constexpr,
                  SIZE: tl.constexpr, STRIDE: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr,
                  RELU: tl.constexpr, ALONE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                  TURNED: tl.constexpr, PRECISION: tl.constexpr):
    """Compute the gradient of a convolution's input from that of its output.

    ADD: plus another gradient of the same map. GATE: turned into that of the map's join (see there). With
    stride 2, positions of one parity meet the same taps, so a program has positions of one parity only.
    """
    wait_for_the_last()
    block, client = tl.program_id(1), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    chunks: tl.constexpr = (OUT_OF + K - 1) // K
    parity = block % (STRIDE * STRIDE)
    odd, odd_too = parity // STRIDE, parity % STRIDE
    m = block // (STRIDE * STRIDE) * M + tl.arange(0, M)
    image = client * BATCH + m // (high * broad)
    h, w = m // broad % high, m % broad  # in dy
    there = (m < BATCH * high * broad) & (h * STRIDE + odd < HEIGHT) & (w * STRIDE + odd_too < BREADTH)
    # Along each axis, output h + last - t meets tap first + STRIDE·t.
    if STRIDE == 1:
        across, taps = SIZE, SIZE * SIZE
        last, last_too, first, first_too = SIZE // 2, SIZE // 2, 0, 0
    elif SIZE == 1:
        across, taps = 1, (1 - odd) * (1 - odd_too)
        last, last_too, first, first_too = 0, 0, 0, 0
    else:
        across, taps = 1 + odd_too, (1 + odd) * (1 + odd_too)
        last, last_too, first, first_too = odd, odd_too, 1 - odd, 1 - odd_too
    n, c = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, K)
    weights = work + client * length + n[None, :]
    total = tl.zeros((N, M) if TURNED else (M, N), tl.float32)
    for k in range(taps * chunks):
        t, o = k // chunks, k % chunks * K + c
        down, right = last - t // across, last_too - t % across
        tap = (first + t // across * STRIDE) * SIZE + first_too + t % across * STRIDE
        inside = there & ((h + down).to(tl.uint32) < high) & ((w + right).to(tl.uint32) < broad)
        place = ((image * high + h + down) * broad + w + right)[:, None] * OUT_OF + o[None, :]
        factors = weights + (o[:, None] * (SIZE * SIZE) + tap) * INTO
        if OUT_OF % K == 0:
            values = tl.load(dy + place, mask=inside[:, None], other=0.0)
        else:
            values = tl.load(dy + place, mask=inside[:, None] & (o < OUT_OF)[None, :], other=0.0)
        if OUT_OF % K == 0 and INTO % N == 0:
            factors = tl.load(factors)
        else:
            factors = tl.load(factors, mask=(o < OUT_OF)[:, None] & (n < INTO)[None, :], other=0.0)
        if TURNED:
            total = product(tl.trans(factors), tl.trans(values), total, PRECISION)
        else:
            total = product(values, factors, total, PRECISION)
    if TURNED:
        total = tl.trans(total)
    position = (image * HEIGHT + h * STRIDE + odd) * BREADTH + w * STRIDE + odd_too
    place = position[:, None] * INTO + n[None, :]
    real = there[:, None] & (n < INTO)[None, :]
    if ADD:
        total += tl.load(other + place, mask=real, other=0.0).to(tl.float32)
    if GATE:
        total, x_hat = gate(total, place, real, out, y, norm, client, n, INTO, RELU, ALONE)
        block += client * tl.num_programs(1)
        put_sums(tl.sum(total, 0), tl.sum(total * x_hat, 0), partial, block, n, INTO)
    tl.store(dx + place, total.to(dx.dtype.element_ty), mask=real)


@triton.jit
def weight_gradient(x, dy, result, client_length, part_length, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
                    BREADTH: tl.constexpr, INTO: tl.constexpr, OUT_OF: tl.constexpr, TAPPED: tl.constexpr,
                    SIZE: tl.constexpr, STRIDE: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                    K: tl.constexpr, PRECISION: tl.constexpr):
    """Sum dy ⊗ x over one part of the positions, K at a time, for M outputs, N inputs and one row of taps."""
    wait_for_the_last()
    part, parts, client = tl.program_id(1), tl.num_programs(1), tl.program_id(2)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    positions: tl.constexpr = BATCH * high * broad
    columns: tl.constexpr = (INTO + N - 1) // N
    down = tl.program_id(0) % SIZE
    o = tl.program_id(0) // SIZE // columns * M + tl.arange(0, M)
    i = tl.program_id(0) // SIZE % columns * N + tl.arange(0, N)
    left = tl.zeros((M, N), tl.float32)
    middle = tl.zeros((M, N), tl.float32)
    right = tl.zeros((M, N), tl.float32)
    for block in range(part, (positions + K - 1) // K, parts):
        m = block * K + tl.arange(0, K)
        there = m < positions
        known = there[:, None] if OUT_OF % M == 0 else there[:, None] & (o < OUT_OF)[None, :]
        d = tl.load(dy + (client * positions + m)[:, None] * OUT_OF + o[None, :], mask=known, other=0.0)
        d = tl.trans(d)
        h, w = m // broad % high * STRIDE + down - SIZE // 2, m % broad * STRIDE
        inside = there & (h.to(tl.uint32) < HEIGHT)
        known = inside[:, None] if INTO % N == 0 else inside[:, None] & (i < INTO)[None, :]
        image = client * BATCH + m // (high * broad)
        place = x + ((image * HEIGHT + h) * BREADTH + w)[:, None] * INTO + i[None, :]
        middle = product(d, tl.load(place, mask=known, other=0.0), middle, PRECISION)
        if SIZE == 3:
            value = tl.load(place - INTO, mask=known & (w > 0)[:, None], other=0.0)
            left = product(d, value, left, PRECISION)
            value = tl.load(place + INTO, mask=known & (w < BREADTH - 1)[:, None], other=0.0)
            right = product(d, value, right, PRECISION)
    place = result + client * client_length + part * part_length
    place += o[:, None] * (SIZE * SIZE * TAPPED) + (down * SIZE + SIZE // 2) * TAPPED + i[None, :]
    real = (o < OUT_OF)[:, None] & (i < TAPPED)[None, :]
    tl.store(place, middle, mask=real)
    if SIZE == 3:
        tl.store(place - TAPPED, left, mask=real)
        tl.store(place + TAPPED, right, mask=real)

"""cnn4's other blocks, from a map of 64 channels to one of 64 channels at half the size, for all clients.

    y = conv(x)          z = scale·y + shift          out = relu(max of each 2x2 window of z)

Maps are (clients, batch, height, breadth, 64); a program works on BLOCK positions of one client's maps.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.cnn4.norm import (
    INVERSE,
    MEAN,
    MEAN_DZ,
    SCALE,
    SHIFT,
    SLOPE,
    WIDTH,
    count_present,
    product,
    row,
    settle,
    settle_gradient,
)


@triton.jit
def convolve(x, work, present, y, partial, LENGTH: tl.constexpr, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
             BREADTH: tl.constexpr, BACKWARD: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Convolve 3x3; BACKWARD: the transpose, from dy to dx.

    Forward it also stores, for each block of positions, the sum of y, the sum of squares around the block's
    own mean and the number of values, from which mean and variance follow without loss of digits.
    """
    client, block = tl.program_id(0), tl.program_id(1)
    m = block * BLOCK + tl.arange(0, BLOCK)
    there = m < BATCH * HEIGHT * BREADTH
    h, w = m // BREADTH % HEIGHT, m % BREADTH
    c = tl.arange(0, WIDTH)
    first = client * BATCH * HEIGHT * BREADTH
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for tap in range(9):
        down, right = tap // 3 - 1, tap % 3 - 1
        if BACKWARD:
            down, right = -down, -right
        inside = there & (h + down >= 0) & (h + down < HEIGHT) & (w + right >= 0) & (w + right < BREADTH)
        place = (first + m + down * BREADTH + right)[:, None] * WIDTH + c[None, :]
        values = tl.load(x + place, mask=inside[:, None], other=0.0)
        weights = tl.load(work + client * LENGTH + c[:, None] * (9 * WIDTH) + tap * WIDTH + c[None, :])
        if BACKWARD:
            total = product(values, weights, total, PRECISION)
        else:  # rows of the weights are outputs
            total = tl.dot(values, tl.trans(weights), total, input_precision=PRECISION)
    tl.store(y + (first + m)[:, None] * WIDTH + c[None, :], total.to(y.dtype.element_ty), mask=there[:, None])
    if not BACKWARD:
        image = client * BATCH + m // (HEIGHT * BREADTH)
        here = (tl.load(present + image, mask=there, other=0) > 0).to(tl.float32)
        count = tl.sum(here)
        sums = tl.sum(total * here[:, None], 0)
        off = (total - (sums / tl.maximum(count, 1.0))[None, :]) * here[:, None]
        place = partial + (client * tl.num_programs(1) + block) * 3 * WIDTH + c
        tl.store(place, sums)
        tl.store(place + WIDTH, tl.sum(off * off, 0))
        tl.store(place + 2 * WIDTH, tl.zeros((WIDTH,), tl.float32) + count)


@triton.jit
def statistics(partial, blocks, bias, gamma, beta, running, counter, norm, LENGTH: tl.constexpr,
               RUNNING: tl.constexpr, ROWS: tl.constexpr):
    """Compute the block's BatchNorm from the sums that `convolve` stored."""
    client = tl.program_id(0)
    r, c = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    start = partial + client * blocks * 3 * WIDTH
    sums = tl.zeros((ROWS, WIDTH), tl.float32)
    counts = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, blocks, ROWS):
        place = start + (begin + r)[:, None] * 3 * WIDTH + c[None, :]
        there = (begin + r < blocks)[:, None]
        sums += tl.load(place, mask=there, other=0.0)
        counts += tl.load(place + 2 * WIDTH, mask=there, other=0.0)
    count = tl.sum(counts, 0)
    mean = tl.sum(sums, 0) / tl.maximum(count, 1.0)
    squares = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, blocks, ROWS):
        place = start + (begin + r)[:, None] * 3 * WIDTH + c[None, :]
        there = (begin + r < blocks)[:, None]
        n = tl.load(place + 2 * WIDTH, mask=there, other=0.0)
        off = tl.load(place, mask=there, other=0.0) / tl.maximum(n, 1.0) - mean[None, :]
        squares += tl.load(place + WIDTH, mask=there, other=0.0) + n * off * off
    values = tl.max(count, 0)
    variance = tl.sum(squares, 0) / tl.maximum(values, 1.0)
    own = client * LENGTH
    settle(norm, client, mean, variance, values, bias + own, gamma + own, beta + own,
           running + client * RUNNING, counter + client)


@triton.jit
def pool(y, norm, out, BATCH: tl.constexpr, HEIGHT: tl.constexpr, BREADTH: tl.constexpr, BLOCK: tl.constexpr):
    """Normalise, pool 2x2 and apply ReLU; BLOCK pooled positions for each program."""
    client = tl.program_id(0)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    m = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = m < BATCH * half_height * half_breadth
    image = client * BATCH + m // (half_height * half_breadth)
    h, w = m // half_breadth % half_height * 2, m % half_breadth * 2
    c = tl.arange(0, WIDTH)
    scale, shift = tl.load(row(norm, client, SCALE)), tl.load(row(norm, client, SHIFT))
    best = tl.zeros((BLOCK, WIDTH), tl.float32)  # ReLU: nothing below 0
    for j in tl.static_range(4):
        place = ((image * HEIGHT + h + j // 2) * BREADTH + w + j % 2)[:, None] * WIDTH + c[None, :]
        z = tl.load(y + place, mask=there[:, None], other=0.0).to(tl.float32)
        best = tl.maximum(best, z * scale[None, :] + shift[None, :])
    place = (client * BATCH * half_height * half_breadth + m)[:, None] * WIDTH + c[None, :]
    tl.store(out + place, best.to(out.dtype.element_ty), mask=there[:, None])


@triton.jit
def pool_backward(y, norm, present, d_out, partial, dy, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
                  BREADTH: tl.constexpr, SPREAD: tl.constexpr, BLOCK: tl.constexpr):
    """Turn the gradient of the pooled map into sums over dz; SPREAD: with these known, into dy.

    dz is d_out at the highest value of each window, if that is above 0. A last odd row or column is in no
    window, but it counts in BatchNorm and so has a dy.
    """
    client, block = tl.program_id(0), tl.program_id(1)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    high: tl.constexpr = (HEIGHT + 1) // 2
    broad: tl.constexpr = (BREADTH + 1) // 2
    m = block * BLOCK + tl.arange(0, BLOCK)
    there = m < BATCH * high * broad
    image = client * BATCH + m // (high * broad)
    there = there & (tl.load(present + image, mask=there, other=0) > 0)
    hh, ww = m // broad % high, m % broad
    window = there & (hh < half_height) & (ww < half_breadth)
    c = tl.arange(0, WIDTH)
    scale, shift = tl.load(row(norm, client, SCALE)), tl.load(row(norm, client, SHIFT))
    mean, inverse = tl.load(row(norm, client, MEAN)), tl.load(row(norm, client, INVERSE))
    best = tl.full((BLOCK, WIDTH), float("-inf"), tl.float32)
    best_y = tl.zeros((BLOCK, WIDTH), tl.float32)
    where = tl.zeros((BLOCK, WIDTH), tl.int32)
    for j in tl.static_range(4):
        place = ((image * HEIGHT + 2 * hh + j // 2) * BREADTH + 2 * ww + j % 2)[:, None] * WIDTH + c[None, :]
        value = tl.load(y + place, mask=window[:, None], other=0.0).to(tl.float32)
        z = value * scale[None, :] + shift[None, :]
        higher = z > best  # of equal ones the first, as in PyTorch
        best_y, where = tl.where(higher, value, best_y), tl.where(higher, j, where)
        best = tl.maximum(best, z)
    place = ((image * half_height + hh) * half_breadth + ww)[:, None] * WIDTH + c[None, :]
    dz = tl.load(d_out + place, mask=window[:, None], other=0.0).to(tl.float32)
    dz = tl.where(best > 0, dz, 0.0)
    if SPREAD:
        mean_dz, slope = tl.load(row(norm, client, MEAN_DZ)), tl.load(row(norm, client, SLOPE))
        for j in tl.static_range(4):
            h, w = 2 * hh + j // 2, 2 * ww + j % 2
            inside = (m < BATCH * high * broad) & (h < HEIGHT) & (w < BREADTH)
            place = ((image * HEIGHT + h) * BREADTH + w)[:, None] * WIDTH + c[None, :]
            value = tl.load(y + place, mask=(inside & there)[:, None], other=0.0).to(tl.float32)
            x_hat = (value - mean[None, :]) * inverse[None, :]
            own = tl.where((where == j) & window[:, None], dz, 0.0)
            result = scale[None, :] * (own - mean_dz[None, :] - x_hat * slope[None, :])
            result = tl.where(there[:, None], result, 0.0)
            tl.store(dy + place, result.to(dy.dtype.element_ty), mask=inside[:, None])
    else:
        place = partial + (client * tl.num_programs(1) + block) * 2 * WIDTH + c
        tl.store(place, tl.sum(dz, 0))
        tl.store(place + WIDTH, tl.sum(dz * (best_y - mean[None, :]) * inverse[None, :], 0))


@triton.jit
def norm_gradient(partial, blocks, present, norm, d_gamma, d_beta, LENGTH: tl.constexpr,
                  BATCH: tl.constexpr, PADDED: tl.constexpr, AREA: tl.constexpr, ROWS: tl.constexpr):
    """Compute the gradients of γ and β, and what dy needs, from the sums that `pool_backward` stored."""
    client = tl.program_id(0)
    r, c = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    sum_dz = tl.zeros((ROWS, WIDTH), tl.float32)
    sum_dz_x = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, blocks, ROWS):
        place = partial + (client * blocks + begin + r)[:, None] * 2 * WIDTH + c[None, :]
        there = (begin + r < blocks)[:, None]
        sum_dz += tl.load(place, mask=there, other=0.0)
        sum_dz_x += tl.load(place + WIDTH, mask=there, other=0.0)
    values = count_present(present, client, BATCH, PADDED) * AREA
    own = client * LENGTH
    settle_gradient(norm, client, tl.sum(sum_dz, 0), tl.sum(sum_dz_x, 0), values, d_gamma + own, d_beta + own)


@triton.jit
def weight_gradient(x, dy, partial, BATCH: tl.constexpr, HEIGHT: tl.constexpr, BREADTH: tl.constexpr,
                    BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Sum dy ⊗ x for the three taps of one row of the kernel, over one part of the positions."""
    client, down = tl.program_id(0), tl.program_id(1) - 1
    part, parts = tl.program_id(2), tl.num_programs(2)
    c = tl.arange(0, WIDTH)
    first = client * BATCH * HEIGHT * BREADTH
    left = tl.zeros((WIDTH, WIDTH), tl.float32)
    middle = tl.zeros((WIDTH, WIDTH), tl.float32)
    right = tl.zeros((WIDTH, WIDTH), tl.float32)
    for block in range(part, tl.cdiv(BATCH * HEIGHT * BREADTH, BLOCK), parts):
        m = block * BLOCK + tl.arange(0, BLOCK)
        h, w = m // BREADTH % HEIGHT, m % BREADTH
        there = m < BATCH * HEIGHT * BREADTH
        d = tl.load(dy + (first + m)[:, None] * WIDTH + c[None, :], mask=there[:, None], other=0.0)
        d = tl.trans(d)
        inside = there & (h + down >= 0) & (h + down < HEIGHT)
        place = x + (first + m + down * BREADTH)[:, None] * WIDTH + c[None, :]
        value = tl.load(place - WIDTH, mask=(inside & (w > 0))[:, None], other=0.0)
        left = product(d, value, left, PRECISION)
        value = tl.load(place, mask=inside[:, None], other=0.0)
        middle = product(d, value, middle, PRECISION)
        value = tl.load(place + WIDTH, mask=(inside & (w < BREADTH - 1))[:, None], other=0.0)
        right = product(d, value, right, PRECISION)
    place = partial + (client * parts + part) * 9 * WIDTH * WIDTH
    place += c[:, None] * (9 * WIDTH) + (down + 1) * 3 * WIDTH + c[None, :]
    tl.store(place, left)
    tl.store(place + WIDTH, middle)
    tl.store(place + 2 * WIDTH, right)

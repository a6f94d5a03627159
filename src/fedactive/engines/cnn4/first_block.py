"""cnn4's first block, whose map would be most of the network's memory traffic: it is never stored.

The map is y = W·p for the 27 values p of each 3x3x3 patch, cheap to compute again wherever it is needed. The
statistics that BatchNorm needs before any value can be used follow from sums over the patches alone:

    S = Σ [p 1][p 1]ᵀ        mean = W·p̄        variance = diag(W Cov(p) Wᵀ)

so one pass computes convolution, normalisation, pooling and ReLU. Backwards, y's gradient

    dy = scale·(dz - mean(dz) - x̂·mean(dz·x̂))

has one value in four that is not 0 in its first term; the other two are linear in p and follow from S again.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.cnn4.norm import (
    INVERSE,
    MEAN,
    SCALE,
    SHIFT,
    WIDTH,
    count_present,
    row,
    settle,
    settle_gradient,
)


@triton.jit
def patches(images, image, h, w, there, HEIGHT: tl.constexpr, BREADTH: tl.constexpr, INTO: tl.constexpr,
            PATCH: tl.constexpr):
    """Load the patch around each position (image, h, w) as PATCH values: taps x channels, 1, 0, 0, ..."""
    k = tl.arange(0, PATCH)
    tap = k // INTO
    hh = h[:, None] + (tap // 3)[None, :] - 1
    ww = w[:, None] + (tap % 3)[None, :] - 1
    inside = (hh >= 0) & (hh < HEIGHT) & (ww >= 0) & (ww < BREADTH) & (k < 9 * INTO)[None, :] & there[:, None]
    place = ((image[:, None] * HEIGHT + hh) * BREADTH + ww) * INTO + (k % INTO)[None, :]
    p = tl.load(images + place, mask=inside, other=0.0)
    return tl.where((k == 9 * INTO)[None, :] & there[:, None], 1.0, p).to(p.dtype)


@triton.jit
def first_weights(weight, INTO: tl.constexpr, PATCH: tl.constexpr):
    """Load W (64, PATCH), filled up with zeros."""
    c, k = tl.arange(0, WIDTH), tl.arange(0, PATCH)
    return tl.load(weight + c[:, None] * (9 * INTO) + k[None, :], mask=(k < 9 * INTO)[None, :], other=0.0)


@triton.jit
def patch_sums(images, present, partial, BATCH: tl.constexpr, HEIGHT: tl.constexpr, BREADTH: tl.constexpr,
               INTO: tl.constexpr, PATCH: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Compute S of each client, in as many parts as there are programs along the second axis."""
    client, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    total = tl.zeros((PATCH, PATCH), tl.float32)
    for block in range(part, tl.cdiv(BATCH * HEIGHT * BREADTH, BLOCK), parts):
        m = block * BLOCK + tl.arange(0, BLOCK)
        image = client * BATCH + m // (HEIGHT * BREADTH)
        there = m < BATCH * HEIGHT * BREADTH
        there = there & (tl.load(present + image, mask=there, other=0) > 0)
        h, w = m // BREADTH % HEIGHT, m % BREADTH
        p = patches(images, image, h, w, there, HEIGHT, BREADTH, INTO, PATCH)
        total = tl.dot(tl.trans(p), p, total, input_precision=PRECISION)
    k = tl.arange(0, PATCH)
    tl.store(partial + ((client * parts + part) * PATCH + k[:, None]) * PATCH + k[None, :], total)


@triton.jit
def first_statistics(sums, present, work, bias, gamma, beta, running, counter, norm, LENGTH: tl.constexpr,
                     RUNNING: tl.constexpr, BATCH: tl.constexpr, PADDED: tl.constexpr, AREA: tl.constexpr,
                     INTO: tl.constexpr, PATCH: tl.constexpr):
    """Compute the block's BatchNorm from S."""
    client = tl.program_id(0)
    k = tl.arange(0, PATCH)
    total = tl.load(sums + client * PATCH * PATCH + k[:, None] * PATCH + k[None, :])
    values = count_present(present, client, BATCH, PADDED) * AREA
    share = 1 / tl.maximum(values, 1.0)
    p_mean = tl.sum(tl.where((k == 9 * INTO)[None, :], total, 0.0), 1) * share
    p_mean_again = tl.sum(tl.where((k == 9 * INTO)[:, None], total, 0.0), 0) * share
    covariance = total * share - p_mean[:, None] * p_mean_again[None, :]
    weights = first_weights(work + client * LENGTH, INTO, PATCH).to(tl.float32)
    mean = tl.sum(weights * p_mean_again[None, :], 1)
    variance = tl.sum(tl.dot(weights, covariance, input_precision="ieee") * weights, 1)
    own = client * LENGTH
    settle(norm, client, mean, tl.maximum(variance, 0.0), values, bias + own, gamma + own, beta + own,
           running + client * RUNNING, counter + client)


@triton.jit
def first_forward(images, work, norm, out, LENGTH: tl.constexpr, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
                  BREADTH: tl.constexpr, INTO: tl.constexpr, PATCH: tl.constexpr, BLOCK: tl.constexpr,
                  PRECISION: tl.constexpr):
    """Convolve, normalise, pool and apply ReLU; BLOCK pooled positions for each program."""
    client = tl.program_id(0)
    m = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    there = m < BATCH * half_height * half_breadth
    image = client * BATCH + m // (half_height * half_breadth)
    h, w = m // half_breadth % half_height * 2, m % half_breadth * 2
    weights = tl.trans(first_weights(work + client * LENGTH, INTO, PATCH))
    scale, shift = tl.load(row(norm, client, SCALE)), tl.load(row(norm, client, SHIFT))
    best = tl.zeros((BLOCK, WIDTH), tl.float32)  # ReLU: nothing below 0
    for j in tl.static_range(4):
        p = patches(images, image, h + j // 2, w + j % 2, there, HEIGHT, BREADTH, INTO, PATCH)
        y = tl.dot(p, weights, input_precision=PRECISION)
        best = tl.maximum(best, y * scale[None, :] + shift[None, :])
    c = tl.arange(0, WIDTH)
    place = (client * BATCH * half_height * half_breadth + m)[:, None] * WIDTH + c[None, :]
    tl.store(out + place, best.to(out.dtype.element_ty), mask=there[:, None])


@triton.jit
def first_backward(images, present, work, norm, d_pooled, partial, LENGTH: tl.constexpr,
                   BATCH: tl.constexpr, HEIGHT: tl.constexpr, BREADTH: tl.constexpr, INTO: tl.constexpr,
                   PATCH: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Compute Σ p ⊗ dz, Σ dz and Σ dz·x̂, stored one below the other, in parts, from the output's gradient."""
    client, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    weights = tl.trans(first_weights(work + client * LENGTH, INTO, PATCH))
    scale, shift = tl.load(row(norm, client, SCALE)), tl.load(row(norm, client, SHIFT))
    mean, inverse = tl.load(row(norm, client, MEAN)), tl.load(row(norm, client, INVERSE))
    c = tl.arange(0, WIDTH)
    total = tl.zeros((PATCH, WIDTH), tl.float32)
    sum_dz = tl.zeros((WIDTH,), tl.float32)
    sum_dz_x = tl.zeros((WIDTH,), tl.float32)
    for block in range(part, tl.cdiv(BATCH * half_height * half_breadth, BLOCK), parts):
        m = block * BLOCK + tl.arange(0, BLOCK)
        there = m < BATCH * half_height * half_breadth
        image = client * BATCH + m // (half_height * half_breadth)
        there = there & (tl.load(present + image, mask=there, other=0) > 0)
        h, w = m // half_breadth % half_height * 2, m % half_breadth * 2
        place = (client * BATCH * half_height * half_breadth + m)[:, None] * WIDTH + c[None, :]
        d_out = tl.load(d_pooled + place, mask=there[:, None], other=0.0).to(tl.float32)
        p0 = patches(images, image, h, w, there, HEIGHT, BREADTH, INTO, PATCH)
        p1 = patches(images, image, h, w + 1, there, HEIGHT, BREADTH, INTO, PATCH)
        p2 = patches(images, image, h + 1, w, there, HEIGHT, BREADTH, INTO, PATCH)
        p3 = patches(images, image, h + 1, w + 1, there, HEIGHT, BREADTH, INTO, PATCH)
        best_y = tl.dot(p0, weights, input_precision=PRECISION)
        best = best_y * scale[None, :] + shift[None, :]
        where = tl.zeros((BLOCK, WIDTH), tl.int32)
        for j in tl.static_range(1, 4):
            y = tl.dot(p1 if j == 1 else (p2 if j == 2 else p3), weights, input_precision=PRECISION)
            z = y * scale[None, :] + shift[None, :]
            higher = z > best  # of equal ones the first, as in PyTorch
            best_y, where = tl.where(higher, y, best_y), tl.where(higher, j, where)
            best = tl.maximum(best, z)
        dz = tl.where(best > 0, d_out, 0.0)
        sum_dz += tl.sum(dz, 0)
        sum_dz_x += tl.sum(dz * (best_y - mean[None, :]) * inverse[None, :], 0)
        d0 = tl.where(where == 0, dz, 0.0).to(p0.dtype)
        total = tl.dot(tl.trans(p0), d0, total, input_precision=PRECISION)
        d1 = tl.where(where == 1, dz, 0.0).to(p0.dtype)
        total = tl.dot(tl.trans(p1), d1, total, input_precision=PRECISION)
        d2 = tl.where(where == 2, dz, 0.0).to(p0.dtype)
        total = tl.dot(tl.trans(p2), d2, total, input_precision=PRECISION)
        d3 = tl.where(where == 3, dz, 0.0).to(p0.dtype)
        total = tl.dot(tl.trans(p3), d3, total, input_precision=PRECISION)
    k = tl.arange(0, PATCH)
    place = partial + (client * parts + part) * (PATCH + 2) * WIDTH + c
    tl.store(place[None, :] + k[:, None] * WIDTH, total)
    tl.store(place + PATCH * WIDTH, sum_dz)
    tl.store(place + (PATCH + 1) * WIDTH, sum_dz_x)


@triton.jit
def first_gradient(products, sums, present, work, norm, d_weight, d_gamma, d_beta, LENGTH: tl.constexpr,
                   BATCH: tl.constexpr, PADDED: tl.constexpr, AREA: tl.constexpr, INTO: tl.constexpr,
                   PATCH: tl.constexpr):
    """Compute the gradients of W, γ and β:  dW = scale·(Σ p dz - mean(dz)·Σ p - mean(dz·x̂)·Σ p x̂)."""
    client = tl.program_id(0)
    k, c = tl.arange(0, PATCH), tl.arange(0, WIDTH)
    place = products + client * (PATCH + 2) * WIDTH + c
    total = tl.load(place[None, :] + k[:, None] * WIDTH)
    sum_dz = tl.load(place + PATCH * WIDTH)
    sum_dz_x = tl.load(place + (PATCH + 1) * WIDTH)
    own = client * LENGTH
    values = count_present(present, client, BATCH, PADDED) * AREA
    settle_gradient(norm, client, sum_dz, sum_dz_x, values, d_gamma + own, d_beta + own)

    share = tl.where(values > 1, 1 / tl.maximum(values, 1.0), 0.0)
    drift, slope = sum_dz * share, sum_dz_x * share
    mean, inverse = tl.load(row(norm, client, MEAN)), tl.load(row(norm, client, INVERSE))
    scale = tl.load(row(norm, client, SCALE))
    gram = tl.load(sums + client * PATCH * PATCH + k[:, None] * PATCH + k[None, :])
    p_sum = tl.sum(tl.where((k == 9 * INTO)[None, :], gram, 0.0), 1)
    weights = first_weights(work + client * LENGTH, INTO, PATCH).to(tl.float32)
    p_y = tl.dot(gram, tl.trans(weights), input_precision="ieee")  # Σ p y
    p_x = (p_y - p_sum[:, None] * mean[None, :]) * inverse[None, :]
    result = scale[None, :] * (total - p_sum[:, None] * drift[None, :] - p_x * slope[None, :])
    place = c[None, :] * (9 * INTO) + k[:, None]
    tl.store(d_weight + own + place, result, mask=(k < 9 * INTO)[:, None])

"""A first convolution before max-pooling, whose map would be most of the memory traffic: it is not stored.

The map is y = W·p for the 27 values p of each 3x3x3 patch, cheap to compute again wherever it is needed. (A
patch is kept with a 1 behind it, so that sums over patches are part of their products.) The
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

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.norm import (
    INVERSE,
    MEAN,
    SCALE,
    SHIFT,
    count_present,
    row,
    settle,
    settle_gradient,
)


@triton.jit
def load_patches(patches, position, there, PATCH: tl.constexpr):
    k = tl.arange(0, PATCH)
    return tl.load(patches + position[:, None] * PATCH + k[None, :], mask=there[:, None], other=0.0)


@triton.jit
def first_weights(weight, INTO: tl.constexpr, PATCH: tl.constexpr, C: tl.constexpr):
    """Load W (channels, PATCH), filled up with zeros."""
    c, k = tl.arange(0, C), tl.arange(0, PATCH)
    return tl.load(weight + c[:, None] * (9 * INTO) + k[None, :], mask=(k < 9 * INTO)[None, :], other=0.0)


@triton.jit
def patch_sums(patches, present, partial, BATCH: tl.constexpr, AREA: tl.constexpr, PATCH: tl.constexpr,
               BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Compute S of each client, in as many parts as there are programs along the first axis."""
    wait_for_the_last()
    part, parts, client = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    total = tl.zeros((PATCH, PATCH), tl.float32)
    for block in range(part, tl.cdiv(BATCH * AREA, BLOCK), parts):
        m = block * BLOCK + tl.arange(0, BLOCK)
        there = m < BATCH * AREA
        there = there & (tl.load(present + client * BATCH + m // AREA, mask=there, other=0) > 0)
        p = load_patches(patches, client * BATCH * AREA + m, there, PATCH)
        total = tl.dot(tl.trans(p), p, total, input_precision=PRECISION)
    k = tl.arange(0, PATCH)
    tl.store(partial + ((client * parts + part) * PATCH + k[:, None]) * PATCH + k[None, :], total)


@triton.jit
def first_statistics(sums, present, work, bias, gamma, beta, running_mean, running_variance, counter, norm,
                     length, running_length, BATCH: tl.constexpr, PADDED: tl.constexpr, AREA: tl.constexpr,
                     INTO: tl.constexpr, PATCH: tl.constexpr, C: tl.constexpr, BIASED: tl.constexpr):
    """Compute the block's BatchNorm from S."""
    wait_for_the_last()
    client = tl.program_id(1)
    k, c = tl.arange(0, PATCH), tl.arange(0, C)
    total = tl.load(sums + client * PATCH * PATCH + k[:, None] * PATCH + k[None, :])
    values = count_present(present, client, BATCH, PADDED) * AREA
    share = 1 / tl.maximum(values, 1.0)
    p_mean = tl.sum(tl.where((k == 9 * INTO)[None, :], total, 0.0), 1) * share
    p_mean_again = tl.sum(tl.where((k == 9 * INTO)[:, None], total, 0.0), 0) * share
    covariance = total * share - p_mean[:, None] * p_mean_again[None, :]
    weights = first_weights(work + client * length, INTO, PATCH, C).to(tl.float32)
    mean = tl.sum(weights * p_mean_again[None, :], 1)
    variance = tl.sum(tl.dot(weights, covariance, input_precision="ieee") * weights, 1)
    own, kept = client * length, client * running_length
    settle(norm, client, c, mean, tl.maximum(variance, 0.0), values, bias + own, gamma + own, beta + own,
           running_mean + kept, running_variance + kept, counter, C, BIASED)


@triton.jit
def first_forward(patches, work, norm, out, length, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
                  BREADTH: tl.constexpr, INTO: tl.constexpr, PATCH: tl.constexpr, C: tl.constexpr,
                  BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Convolve, normalise, pool and apply ReLU; BLOCK pooled positions for each program."""
    wait_for_the_last()
    client = tl.program_id(1)
    m, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, C)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    there = m < BATCH * half_height * half_breadth
    image = client * BATCH + m // (half_height * half_breadth)
    h, w = m // half_breadth % half_height * 2, m % half_breadth * 2
    corner = (image * HEIGHT + h) * BREADTH + w
    weights = tl.trans(first_weights(work + client * length, INTO, PATCH, C))
    scale, shift = row(norm, client, SCALE, c, C), row(norm, client, SHIFT, c, C)
    best = tl.zeros((BLOCK, C), tl.float32)  # ReLU: nothing below 0
    for j in tl.static_range(4):
        p = load_patches(patches, corner + j // 2 * BREADTH + j % 2, there, PATCH)
        y = tl.dot(p, weights, input_precision=PRECISION)
        best = tl.maximum(best, y * scale[None, :] + shift[None, :])
    place = (client * BATCH * half_height * half_breadth + m)[:, None] * C + c[None, :]
    tl.store(out + place, best.to(out.dtype.element_ty), mask=there[:, None])


@triton.jit
def first_backward(patches, present, work, norm, d_pooled, partial, length, BATCH: tl.constexpr,
                   HEIGHT: tl.constexpr, BREADTH: tl.constexpr, INTO: tl.constexpr, PATCH: tl.constexpr,
                   C: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Compute Σ p ⊗ dz, Σ dz and Σ dz·x̂, stored one below the other, in parts, from the output's gradient."""
    wait_for_the_last()
    part, parts, client = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    c = tl.arange(0, C)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    weights = tl.trans(first_weights(work + client * length, INTO, PATCH, C))
    scale, shift = row(norm, client, SCALE, c, C), row(norm, client, SHIFT, c, C)
    mean, inverse = row(norm, client, MEAN, c, C), row(norm, client, INVERSE, c, C)
    total = tl.zeros((PATCH, C), tl.float32)
    sum_dz = tl.zeros((C,), tl.float32)
    sum_dz_x = tl.zeros((C,), tl.float32)
    for block in range(part, tl.cdiv(BATCH * half_height * half_breadth, BLOCK), parts):
        m = block * BLOCK + tl.arange(0, BLOCK)
        there = m < BATCH * half_height * half_breadth
        image = client * BATCH + m // (half_height * half_breadth)
        there = there & (tl.load(present + image, mask=there, other=0) > 0)
        h, w = m // half_breadth % half_height * 2, m % half_breadth * 2
        place = (client * BATCH * half_height * half_breadth + m)[:, None] * C + c[None, :]
        d_out = tl.load(d_pooled + place, mask=there[:, None], other=0.0).to(tl.float32)
        corner = (image * HEIGHT + h) * BREADTH + w
        p0 = load_patches(patches, corner, there, PATCH)
        p1 = load_patches(patches, corner + 1, there, PATCH)
        p2 = load_patches(patches, corner + BREADTH, there, PATCH)
        p3 = load_patches(patches, corner + BREADTH + 1, there, PATCH)
        best_y = tl.dot(p0, weights, input_precision=PRECISION)
        best = best_y * scale[None, :] + shift[None, :]
        where = tl.zeros((BLOCK, C), tl.int32)
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
    place = partial + (client * parts + part) * (PATCH + 2) * C + c
    tl.store(place[None, :] + k[:, None] * C, total)
    tl.store(place + PATCH * C, sum_dz)
    tl.store(place + (PATCH + 1) * C, sum_dz_x)


@triton.jit
def first_gradient(products, sums, present, work, norm, d_weight, d_gamma, d_beta, length,
                   BATCH: tl.constexpr, PADDED: tl.constexpr, AREA: tl.constexpr, INTO: tl.constexpr,
                   PATCH: tl.constexpr, C: tl.constexpr):
    """Compute the gradients of W, γ and β:  dW = scale·(Σ p dz - mean(dz)·Σ p - mean(dz·x̂)·Σ p x̂)."""
    wait_for_the_last()
    client = tl.program_id(1)
    k, c = tl.arange(0, PATCH), tl.arange(0, C)
    place = products + client * (PATCH + 2) * C + c
    total = tl.load(place[None, :] + k[:, None] * C)
    sum_dz = tl.load(place + PATCH * C)
    sum_dz_x = tl.load(place + (PATCH + 1) * C)
    own = client * length
    values = count_present(present, client, BATCH, PADDED) * AREA
    settle_gradient(norm, client, c, sum_dz, sum_dz_x, values, d_gamma + own, d_beta + own, C)

    share = tl.where(values > 1, 1 / tl.maximum(values, 1.0), 0.0)
    drift, slope = sum_dz * share, sum_dz_x * share
    mean, inverse = row(norm, client, MEAN, c, C), row(norm, client, INVERSE, c, C)
    scale = row(norm, client, SCALE, c, C)
    gram = tl.load(sums + client * PATCH * PATCH + k[:, None] * PATCH + k[None, :])
    p_sum = tl.sum(tl.where((k == 9 * INTO)[None, :], gram, 0.0), 1)
    weights = first_weights(work + client * length, INTO, PATCH, C).to(tl.float32)
    p_y = tl.dot(gram, tl.trans(weights), input_precision="ieee")  # Σ p y
    p_x = (p_y - p_sum[:, None] * mean[None, :]) * inverse[None, :]
    result = scale[None, :] * (total - p_sum[:, None] * drift[None, :] - p_x * slope[None, :])
    place = c[None, :] * (9 * INTO) + k[:, None]
    tl.store(d_weight + own + place, result, mask=(k < 9 * INTO)[:, None])

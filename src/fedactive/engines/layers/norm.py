"""BatchNorm inside the kernels: from sums over a batch to y ↦ scale·y + shift, and its gradients.

A convolution's bias is left out of its output y: BatchNorm subtracts it again. Only the running mean includes
it. Results are kept in `norm` (clients, 6, channels), whose rows are named below.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last

EPS = tl.constexpr(1e-5)
MOMENTUM = tl.constexpr(0.1)
MEAN = tl.constexpr(0)
INVERSE = tl.constexpr(1)  # 1/√(variance + ε)
SCALE = tl.constexpr(2)
SHIFT = tl.constexpr(3)
MEAN_DZ = tl.constexpr(4)  # mean of dz, the gradient of the normalised map
SLOPE = tl.constexpr(5)  # mean of dz·x̂
ROWS = 6


@triton.jit
def row(norm, client, which, c, CHANNELS: tl.constexpr):
    """Load one of the rows above, for channels c."""
    return tl.load(norm + (client * 6 + which) * CHANNELS + c, mask=c < CHANNELS, other=0.0)


@triton.jit
def put_row(norm, client, which, c, values, CHANNELS: tl.constexpr):
    tl.store(norm + (client * 6 + which) * CHANNELS + c, values, mask=c < CHANNELS)


@triton.jit
def put_sums(first, second, partial, block, c, CHANNELS: tl.constexpr):
    """Store two sums over one block of rows, for every channel."""
    place = partial + block * 2 * CHANNELS + c
    tl.store(place, first, mask=c < CHANNELS)
    tl.store(place + CHANNELS, second, mask=c < CHANNELS)


@triton.jit
def take_sums(partial, blocks, client, c, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    """Add up what all blocks of a client have stored."""
    r = tl.arange(0, BLOCK)
    first = tl.zeros((BLOCK, C), tl.float32)
    second = tl.zeros((BLOCK, C), tl.float32)
    for begin in range(0, blocks, BLOCK):
        place = partial + (client * blocks + begin + r)[:, None] * 2 * CHANNELS + c[None, :]
        there = (begin + r < blocks)[:, None] & (c < CHANNELS)[None, :]
        first += tl.load(place, mask=there, other=0.0)
        second += tl.load(place + CHANNELS, mask=there, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def statistics(partial, blocks, present, bias, gamma, beta, running_mean, running_variance, counter, norm,
               length, running_length, AREA: tl.constexpr, BATCH: tl.constexpr, PADDED: tl.constexpr,
               CHANNELS: tl.constexpr, BIASED: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    """Compute scale and shift from the sums of y and y² around the running mean, and update that.

    The running mean is close, so these sums lose no digits.
    """
    wait_for_the_last()
    client, c = tl.program_id(1), tl.program_id(0) * C + tl.arange(0, C)
    real = c < CHANNELS
    values = count_present(present, client, BATCH, PADDED) * AREA
    share = 1 / tl.maximum(values, 1.0)
    sums, squares = take_sums(partial, blocks, client, c, CHANNELS, BLOCK, C)
    distance = sums * share
    variance = tl.maximum(squares * share - distance * distance, 0.0)

    own, kept = client * length, client * running_length
    mean = tl.load(running_mean + kept + c, mask=real, other=0.0) + distance
    settle(norm, client, c, mean, variance, values, bias + own, gamma + own, beta + own, running_mean + kept,
           running_variance + kept, counter, CHANNELS, BIASED)


@triton.jit
def settle(norm, client, c, mean, variance, values, bias, gamma, beta, running_mean, running_variance,
           counter, CHANNELS: tl.constexpr, BIASED: tl.constexpr):
    """Write scale and shift, and update the running statistics.

    A batch with a single value has no variance: the running statistics are used instead, and not updated.
    """
    real, enough = c < CHANNELS, values > 1
    old_mean = tl.load(running_mean + c, mask=real, other=0.0)
    old_variance = tl.load(running_variance + c, mask=real, other=0.0)
    conv_bias = tl.zeros_like(mean)
    if BIASED:
        conv_bias = tl.load(bias + c, mask=real, other=0.0)
    unbiased = variance * (values / tl.maximum(values - 1, 1.0))
    share = tl.where(enough, MOMENTUM, 0.0)
    tl.store(running_mean + c, old_mean + share * (mean + conv_bias - old_mean), mask=real)
    tl.store(running_variance + c, old_variance + share * (unbiased - old_variance), mask=real)
    if tl.program_id(0) == 0:
        tl.store(counter + client, tl.load(counter + client) + enough.to(tl.int64))

    mean = tl.where(enough, mean, old_mean - conv_bias)
    inverse = 1 / tl.sqrt(tl.where(enough, variance, old_variance) + EPS)
    scale = tl.load(gamma + c, mask=real, other=0.0) * inverse
    put_row(norm, client, MEAN, c, mean, CHANNELS)
    put_row(norm, client, INVERSE, c, inverse, CHANNELS)
    put_row(norm, client, SCALE, c, scale, CHANNELS)
    put_row(norm, client, SHIFT, c, tl.load(beta + c, mask=real, other=0.0) - mean * scale, CHANNELS)


@triton.jit
def norm_gradient(partial, blocks, present, norm, d_bias, d_gamma, d_beta, length, AREA: tl.constexpr,
                  BATCH: tl.constexpr, PADDED: tl.constexpr, CHANNELS: tl.constexpr, BIASED: tl.constexpr,
                  BLOCK: tl.constexpr, C: tl.constexpr):
    """Compute the gradients of γ and β, and the two means that every dy needs, from sums of dz and dz·x̂."""
    wait_for_the_last()
    client, c = tl.program_id(1), tl.program_id(0) * C + tl.arange(0, C)
    sum_dz, sum_dz_x = take_sums(partial, blocks, client, c, CHANNELS, BLOCK, C)
    values = count_present(present, client, BATCH, PADDED) * AREA
    own = client * length
    settle_gradient(norm, client, c, sum_dz, sum_dz_x, values, d_gamma + own, d_beta + own, CHANNELS)
    if BIASED:  # only running statistics, in place of those of a single value, do not take the bias away
        slope = tl.where(values > 1, 0.0, sum_dz * row(norm, client, SCALE, c, CHANNELS))
        tl.store(d_bias + own + c, slope, mask=c < CHANNELS)


@triton.jit
def settle_gradient(norm, client, c, sum_dz, sum_dz_x, values, d_gamma, d_beta, CHANNELS: tl.constexpr):
    tl.store(d_gamma + c, sum_dz_x, mask=c < CHANNELS)
    tl.store(d_beta + c, sum_dz, mask=c < CHANNELS)
    share = tl.where(values > 1, 1 / tl.maximum(values, 1.0), 0.0)
    put_row(norm, client, MEAN_DZ, c, sum_dz * share, CHANNELS)
    put_row(norm, client, SLOPE, c, sum_dz_x * share, CHANNELS)


@triton.jit
def count_present(present, client, BATCH: tl.constexpr, PADDED: tl.constexpr):
    n = tl.arange(0, PADDED)
    return tl.sum(tl.load(present + client * BATCH + n, mask=n < BATCH, other=0).to(tl.float32))

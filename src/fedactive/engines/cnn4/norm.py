"""BatchNorm inside the kernels: from sums over a batch to y ↦ scale·y + shift, and its gradients.

A convolution's bias is left out of its output y: BatchNorm subtracts it again, and its gradient is 0. Only
the running mean includes it. Results are kept in `norm` (clients, 6, 64), whose rows are named below.
"""

import triton
import triton.language as tl

WIDTH = tl.constexpr(64)
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
def row(norm, client, which):
    return norm + (client * 6 + which) * WIDTH + tl.arange(0, WIDTH)


@triton.jit
def count_present(present, client, BATCH: tl.constexpr, PADDED: tl.constexpr):
    n = tl.arange(0, PADDED)
    return tl.sum(tl.load(present + client * BATCH + n, mask=n < BATCH, other=0).to(tl.float32))


@triton.jit
def settle(norm, client, mean, variance, values, bias, gamma, beta, running, counter):
    """Write scale and shift, and update the running statistics (mean, then variance).

    A batch with a single value has no variance: the running statistics are used instead, and not updated.
    """
    c = tl.arange(0, WIDTH)
    enough = values > 1
    conv_bias = tl.load(bias + c)
    old_mean, old_variance = tl.load(running + c), tl.load(running + WIDTH + c)
    unbiased = variance * (values / tl.maximum(values - 1, 1.0))
    share = tl.where(enough, MOMENTUM, 0.0)
    tl.store(running + c, old_mean + share * (mean + conv_bias - old_mean))
    tl.store(running + WIDTH + c, old_variance + share * (unbiased - old_variance))
    tl.store(counter, tl.load(counter) + enough.to(tl.int64))

    mean = tl.where(enough, mean, old_mean - conv_bias)
    inverse = 1 / tl.sqrt(tl.where(enough, variance, old_variance) + EPS)
    scale = tl.load(gamma + c) * inverse
    tl.store(row(norm, client, MEAN), mean)
    tl.store(row(norm, client, INVERSE), inverse)
    tl.store(row(norm, client, SCALE), scale)
    tl.store(row(norm, client, SHIFT), tl.load(beta + c) - mean * scale)


@triton.jit
def settle_gradient(norm, client, sum_dz, sum_dz_x, values, gamma, beta):
    """Write γ's and β's gradients, and the two means that the gradient of every value needs."""
    c = tl.arange(0, WIDTH)
    tl.store(gamma + c, sum_dz_x)
    tl.store(beta + c, sum_dz)
    share = tl.where(values > 1, 1 / tl.maximum(values, 1.0), 0.0)
    tl.store(row(norm, client, MEAN_DZ), sum_dz * share)
    tl.store(row(norm, client, SLOPE), sum_dz_x * share)

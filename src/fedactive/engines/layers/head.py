"""The last layer: logits, the gradient of the mean cross-entropy, and what follows from it."""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.norm import count_present


@triton.jit
def head(z, weight, bias, targets, present, dz, d_weight, d_bias, length, BATCH: tl.constexpr,
         PADDED: tl.constexpr, FEATURES: tl.constexpr, CLASSES: tl.constexpr, COLUMNS: tl.constexpr,
         K: tl.constexpr):
    """Compute the gradients for K features of one client; every program needs all logits."""
    wait_for_the_last()
    client, own = tl.program_id(1), tl.program_id(1) * length
    n, y, k = tl.arange(0, PADDED), tl.arange(0, COLUMNS), tl.arange(0, K)
    there, real = n < BATCH, y < CLASSES
    logits = tl.zeros((PADDED, COLUMNS), tl.float32) + tl.load(bias + own + y, mask=real, other=0.0)[None, :]
    rows = (client * BATCH + n)[:, None] * FEATURES
    for begin in range(0, FEATURES, K):
        known = (begin + k < FEATURES)[None, :]
        part = tl.load(z + rows + begin + k[None, :], mask=there[:, None] & known, other=0.0)
        w = tl.load(weight + own + y[:, None] * FEATURES + begin + k[None, :], mask=real[:, None] & known,
                    other=0.0)
        logits = tl.dot(part, tl.trans(w), logits, input_precision="tf32x3")
    logits = tl.where(real[None, :], logits, float("-inf"))
    p = tl.exp(logits - tl.max(logits, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]

    target = tl.load(targets + client * BATCH + n, mask=there, other=0)
    here = tl.load(present + client * BATCH + n, mask=there, other=0).to(tl.float32)
    count = count_present(present, client, BATCH, PADDED)
    d = (p - (target[:, None] == y[None, :]).to(tl.float32)) * (here / tl.maximum(count, 1.0))[:, None]
    if tl.program_id(0) == 0:
        tl.store(d_bias + own + y, tl.sum(d, 0), mask=real)
    f = tl.program_id(0) * K + k
    known = (f < FEATURES)[None, :]
    part = tl.load(z + rows + f[None, :], mask=there[:, None] & known, other=0.0)
    place = own + y[:, None] * FEATURES + f[None, :]
    slope = tl.dot(tl.trans(d), part, input_precision="ieee")
    tl.store(d_weight + place, slope, mask=real[:, None] & known)
    w = tl.load(weight + place, mask=real[:, None] & known, other=0.0)
    back = tl.dot(d, w, input_precision="ieee")
    tl.store(dz + rows + f[None, :], back, mask=there[:, None] & known)

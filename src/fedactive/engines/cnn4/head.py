"""cnn4's last layer in one kernel: logits, gradient of the mean cross-entropy, and what follows from it."""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.cnn4.norm import WIDTH, count_present


@triton.jit
def head(z, weight, bias, targets, present, dz, d_weight, d_bias, LENGTH: tl.constexpr, BATCH: tl.constexpr,
         PADDED: tl.constexpr, AREA: tl.constexpr, CLASSES: tl.constexpr, COLUMNS: tl.constexpr):
    """Compute one client per program. z is (clients, batch, AREA, 64); weights have channels first."""
    client = tl.program_id(0)
    n, y, c = tl.arange(0, PADDED), tl.arange(0, COLUMNS), tl.arange(0, WIDTH)
    there, real = n < BATCH, y < CLASSES
    own = client * LENGTH
    logits = tl.zeros((PADDED, COLUMNS), tl.float32) + tl.load(bias + own + y, mask=real, other=0.0)[None, :]
    for area in range(AREA):
        place = ((client * BATCH + n) * AREA + area)[:, None] * WIDTH + c[None, :]
        part = tl.load(z + place, mask=there[:, None], other=0.0).to(tl.float32)
        w = weight + own + y[:, None] * (AREA * WIDTH) + c[None, :] * AREA + area
        w = tl.load(w, mask=real[:, None], other=0.0)
        logits = tl.dot(part, tl.trans(w), logits, input_precision="ieee")
    logits = tl.where(real[None, :], logits, float("-inf"))
    p = tl.exp(logits - tl.max(logits, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]

    target = tl.load(targets + client * BATCH + n, mask=there, other=0)
    here = tl.load(present + client * BATCH + n, mask=there, other=0).to(tl.float32)
    count = count_present(present, client, BATCH, PADDED)
    d = (p - (target[:, None] == y[None, :]).to(tl.float32)) * (here / tl.maximum(count, 1.0))[:, None]
    tl.store(d_bias + own + y, tl.sum(d, 0), mask=real)
    for area in range(AREA):
        place = ((client * BATCH + n) * AREA + area)[:, None] * WIDTH + c[None, :]
        part = tl.load(z + place, mask=there[:, None], other=0.0).to(tl.float32)
        w = y[:, None] * (AREA * WIDTH) + c[None, :] * AREA + area
        slope = tl.dot(tl.trans(d), part, input_precision="ieee")
        tl.store(d_weight + own + w, slope, mask=real[:, None])
        back = tl.dot(d, tl.load(weight + own + w, mask=real[:, None], other=0.0), input_precision="ieee")
        tl.store(dz + place, back.to(dz.dtype.element_ty), mask=there[:, None])

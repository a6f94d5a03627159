"""A join with max-pooling: out = relu(max of each 2x2 window of scale·y + shift), and backwards.

Maps are (clients, batch, height, breadth, channels); a program works on BLOCK windows of one client's maps.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.join import relu
from fedactive.engines.layers.norm import INVERSE, MEAN, MEAN_DZ, SCALE, SHIFT, SLOPE, put_sums, row


@triton.jit
def pool(y, norm, out, BATCH: tl.constexpr, HEIGHT: tl.constexpr, BREADTH: tl.constexpr,
         CHANNELS: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    """Normalise, pool 2x2 and apply ReLU."""
    wait_for_the_last()
    client = tl.program_id(2)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    m, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    there = (m < BATCH * half_height * half_breadth)[:, None] & (c < CHANNELS)[None, :]
    image = client * BATCH + m // (half_height * half_breadth)
    h, w = m // half_breadth % half_height * 2, m % half_breadth * 2
    scale, shift = row(norm, client, SCALE, c, CHANNELS), row(norm, client, SHIFT, c, CHANNELS)
    best = tl.full((BLOCK, C), float("-inf"), tl.float32)
    for j in tl.static_range(4):
        place = ((image * HEIGHT + h + j // 2) * BREADTH + w + j % 2)[:, None] * CHANNELS + c[None, :]
        z = tl.load(y + place, mask=there, other=0.0).to(tl.float32)
        best = tl.maximum(best, z * scale[None, :] + shift[None, :])
    place = (client * BATCH * half_height * half_breadth + m)[:, None] * CHANNELS + c[None, :]
    tl.store(out + place, relu(best, RELU).to(out.dtype.element_ty), mask=there)


@triton.jit
def pool_back(y, norm, present, d_out, partial, BATCH: tl.constexpr, HEIGHT: tl.constexpr,
              BREADTH: tl.constexpr, CHANNELS: tl.constexpr, RELU: tl.constexpr, SPREAD: tl.constexpr,
              BLOCK: tl.constexpr, C: tl.constexpr):
    """Turn the gradient of the pooled map into sums over dz; SPREAD: with these known, overwrite y by dy.

    dz is d_out at the highest value of each window, if ReLU lets it pass. A last odd row or column is in no
    window, but it counts in BatchNorm and so has a dy.
    """
    wait_for_the_last()
    block, client = tl.program_id(0), tl.program_id(2)
    half_height: tl.constexpr = HEIGHT // 2
    half_breadth: tl.constexpr = BREADTH // 2
    high: tl.constexpr = (HEIGHT + 1) // 2
    broad: tl.constexpr = (BREADTH + 1) // 2
    m, c = block * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * C + tl.arange(0, C)
    real = (c < CHANNELS)[None, :]
    image = client * BATCH + m // (high * broad)
    there = m < BATCH * high * broad
    here = there & (tl.load(present + image, mask=there, other=0) > 0)
    hh, ww = m // broad % high, m % broad
    window = (here & (hh < half_height) & (ww < half_breadth))[:, None] & real
    scale, shift = row(norm, client, SCALE, c, CHANNELS), row(norm, client, SHIFT, c, CHANNELS)
    mean, inverse = row(norm, client, MEAN, c, CHANNELS), row(norm, client, INVERSE, c, CHANNELS)
    best = tl.full((BLOCK, C), float("-inf"), tl.float32)
    best_y = tl.zeros((BLOCK, C), tl.float32)
    where = tl.zeros((BLOCK, C), tl.int32)
    for j in tl.static_range(4):
        position = (image * HEIGHT + 2 * hh + j // 2) * BREADTH + 2 * ww + j % 2
        value = tl.load(y + position[:, None] * CHANNELS + c[None, :], mask=window, other=0.0).to(tl.float32)
        z = value * scale[None, :] + shift[None, :]
        higher = z > best  # of equal ones the first, as in PyTorch
        best_y, where = tl.where(higher, value, best_y), tl.where(higher, j, where)
        best = tl.maximum(best, z)
    place = ((image * half_height + hh) * half_breadth + ww)[:, None] * CHANNELS + c[None, :]
    dz = tl.load(d_out + place, mask=window, other=0.0).to(tl.float32)
    if RELU != "":
        dz = tl.where(best > 0, dz, 0.0)
    if RELU == "relu6":
        dz = tl.where(best < 6, dz, 0.0)
    if SPREAD:
        mean_dz = row(norm, client, MEAN_DZ, c, CHANNELS)
        slope = row(norm, client, SLOPE, c, CHANNELS)
        for j in tl.static_range(4):
            h, w = 2 * hh + j // 2, 2 * ww + j % 2
            inside = (there & (h < HEIGHT) & (w < BREADTH))[:, None] & real
            place = ((image * HEIGHT + h) * BREADTH + w)[:, None] * CHANNELS + c[None, :]
            value = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
            x_hat = (value - mean[None, :]) * inverse[None, :]
            own = tl.where((where == j) & window, dz, 0.0)
            dy = scale[None, :] * (own - mean_dz[None, :] - x_hat * slope[None, :])
            dy = tl.where(here[:, None], dy, 0.0)
            tl.store(y + place, dy.to(y.dtype.element_ty), mask=inside)
    else:
        x_hat = (best_y - mean[None, :]) * inverse[None, :]
        block += client * tl.num_programs(0)
        put_sums(tl.sum(dz, 0), tl.sum(dz * x_hat, 0), partial, block, c, CHANNELS)

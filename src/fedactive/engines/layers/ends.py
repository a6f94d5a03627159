"""Both ends of a network: patches of the image for the first convolution, and the embedding.

An image has too few channels for the tensor cores. Its 3x3 patches, 27 values for three channels and filled
up to 32, make the first convolution one of 1x1.
"""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.join import gate
from fedactive.engines.layers.norm import put_sums


@triton.jit
def patches(images, out, HEIGHT: tl.constexpr, BREADTH: tl.constexpr, INTO: tl.constexpr, SIZE: tl.constexpr,
            STRIDE: tl.constexpr, PATCH: tl.constexpr, BLOCK: tl.constexpr):
    """Write the patch around each position of one image: taps x channels, 1, and zeros up to PATCH."""
    wait_for_the_last()
    image = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    high: tl.constexpr = (HEIGHT - 1) // STRIDE + 1
    broad: tl.constexpr = (BREADTH - 1) // STRIDE + 1
    m, k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, PATCH)
    there, tap = m < high * broad, k // INTO
    h = (m // broad * STRIDE - SIZE // 2)[:, None] + (tap // SIZE)[None, :]
    w = (m % broad * STRIDE - SIZE // 2)[:, None] + (tap % SIZE)[None, :]
    inside = (h >= 0) & (h < HEIGHT) & (w >= 0) & (w < BREADTH)
    inside = inside & (k < SIZE * SIZE * INTO)[None, :] & there[:, None]
    value = tl.load(images + ((image * HEIGHT + h) * BREADTH + w) * INTO + (k % INTO)[None, :],
                    mask=inside, other=0.0)
    value = tl.where((k == SIZE * SIZE * INTO)[None, :], 1.0, value)
    tl.store(out + (image * high * broad + m)[:, None] * PATCH + k[None, :], value.to(out.dtype.element_ty),
             mask=there[:, None])


@triton.jit
def embed(x, z, AREA: tl.constexpr, CHANNELS: tl.constexpr, MEAN: tl.constexpr, PLACES: tl.constexpr,
          C: tl.constexpr):
    """Write the embedding of one image: means over places, or all values, channels first."""
    wait_for_the_last()
    client = tl.program_id(2)
    image = client * tl.num_programs(1) + tl.program_id(1)
    a, c = tl.arange(0, PLACES), tl.program_id(0) * C + tl.arange(0, C)
    there = (a < AREA)[:, None] & (c < CHANNELS)[None, :]
    value = tl.load(x + (image * AREA + a)[:, None] * CHANNELS + c[None, :], mask=there, other=0.0)
    value = value.to(tl.float32)
    if MEAN:
        tl.store(z + image * CHANNELS + c, tl.sum(value, 0) / AREA, mask=c < CHANNELS)
    else:
        tl.store(z + image * CHANNELS * AREA + c[None, :] * AREA + a[:, None], value, mask=there)


@triton.jit
def embed_back(dz, dx, out, y, norm, partial, AREA: tl.constexpr, CHANNELS: tl.constexpr,
               MEAN: tl.constexpr, GATE: tl.constexpr, RELU: tl.constexpr, ALONE: tl.constexpr,
               PLACES: tl.constexpr, C: tl.constexpr):
    """Turn the embedding's gradient into that of the last map; GATE: and of its join (see there)."""
    wait_for_the_last()
    client = tl.program_id(2)
    image = client * tl.num_programs(1) + tl.program_id(1)
    a, c = tl.arange(0, PLACES), tl.program_id(0) * C + tl.arange(0, C)
    there = (a < AREA)[:, None] & (c < CHANNELS)[None, :]
    place = (image * AREA + a)[:, None] * CHANNELS + c[None, :]
    if MEAN:
        value = tl.load(dz + image * CHANNELS + c, mask=c < CHANNELS, other=0.0) / AREA
        d = tl.zeros((PLACES, C), tl.float32) + value[None, :]
    else:
        d = tl.load(dz + image * CHANNELS * AREA + c[None, :] * AREA + a[:, None], mask=there, other=0.0)
    if GATE:
        d, x_hat = gate(d, place, there, out, y, norm, client, c, CHANNELS, RELU, ALONE)
        put_sums(tl.sum(d, 0), tl.sum(d * x_hat, 0), partial, image, c, CHANNELS)
    tl.store(dx + place, d.to(dx.dtype.element_ty), mask=there)

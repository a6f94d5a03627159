"""Add up what several programs have computed in parts."""

# One argument per line would hide the kernels behind their signatures.
# fmt: off
import triton
import triton.language as tl


@triton.jit
def sum_parts(parts, result, count, size, parts_length, length, BLOCK: tl.constexpr):
    """Sum (clients, count, size) over the parts into rows of the given length."""
    client = tl.program_id(1)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(count):
        total += tl.load(parts + client * parts_length + part * size + e, mask=e < size, other=0.0)
    tl.store(result + client * length + e, total, mask=e < size)

"""Kernels that are put on the GPU while the one before them still runs, and wait there for its end.

That hides the time that a launch takes, of which a step has dozens in a row. It works from Hopper on.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

AHEAD = tl.constexpr(torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0))


@triton.jit
def wait_for_the_last():
    """Wait until all that the kernel before has written can be read. Every kernel begins with it."""
    if AHEAD:
        gdc_wait()

"""Kernels that are put on the GPU while the one before them still runs, and wait there for its end.

That hides the time that a launch takes, of which a step has dozens in a row. It works from Hopper on. There
is one answer for all GPUs of a process, so all of them have to be of that kind.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

GPUS = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
AHEAD = tl.constexpr(len(GPUS) > 0 and all(torch.cuda.get_device_capability(i) >= (9, 0) for i in GPUS))


@triton.jit
def wait_for_the_last():
    """Wait until all that the kernel before has written can be read. Every kernel begins with it."""
    if AHEAD:
        gdc_wait()

"""Load a TorchScript file, which is a program for tensors; one that opens files is refused.

PyTorch runs parts of it while it loads it, so its source, which is in the file, is looked at before.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import torch

# The only operators of TorchScript that take the name of a file.
OPENS_FILES = re.compile(rb"\b(?:torch|aten)\s*\.\s*(?:save|from_file)\b")


def load_script(
    source: Path | bytes, device: torch.device, more: dict[str, str] | None = None
) -> torch.nn.Module:
    """Load it; `more` is filled with texts that are kept under its keys. A ValueError says what is wrong."""
    place = io.BytesIO(source) if isinstance(source, bytes) else str(source)
    try:
        with zipfile.ZipFile(place) as archive:
            codes = [archive.read(entry) for entry in archive.infolist() if entry.filename.endswith(".py")]
        opens_files = any(map(OPENS_FILES.search, codes))
        if isinstance(place, io.BytesIO):
            place.seek(0)
        module: torch.nn.Module | None = None
        if not opens_files:
            module = torch.jit.load(place, map_location=device, _extra_files=more)
    except Exception:  # a damaged file can fail anywhere inside what reads it
        raise ValueError("it is no TorchScript file, or it is damaged") from None
    if module is None:
        raise ValueError("it would open files of this machine, which a model need not")
    return module

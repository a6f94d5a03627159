"""Small DICOM files: those that come with pydicom, and changed copies."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pydicom
import pydicom.data

PUBLISHED = Path(pydicom.data.__file__).parent / "test_files"


def copy(name: str, to: Path, **tags: Any) -> Path:
    """A copy of a published file, with other values of some tags; None removes one."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about values that no hospital should write, and some do
        dataset = pydicom.dcmread(PUBLISHED / f"{name}.dcm")
        for tag, value in tags.items():
            if value is None:
                delattr(dataset, tag)
            else:
                setattr(dataset, tag, value)
        dataset.save_as(to)
    return to

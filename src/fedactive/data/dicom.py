"""One picture of a DICOM file. What else the file says, of patients above all, does not leave this module.

Reasons why a file cannot be used are fixed sentences, and what the libraries would say is silenced: it may
quote the file. A patient is known only by a hash, whose key ends with the process.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedactive.data.deep import Deep, Window, of_values

if TYPE_CHECKING:
    from pydicom import Dataset

ENDINGS = (".dcm", ".dicom")
MISSING = "DICOM needs more: pip install 'fedactive[dicom]'"
KEY = secrets.token_bytes(32)


def is_dicom(head: bytes) -> bool:
    """Is this how a DICOM file begins? 132 bytes tell."""
    return head[128:132] == b"DICM"


def can_read() -> bool:
    return find_spec("pydicom") is not None


def see_dicom(file: Path | BinaryIO) -> Image.Image | Deep | str:
    """Read the picture of a DICOM file; or return why it cannot be used."""
    if not can_read():
        return MISSING
    _silence()
    try:
        from pydicom import dcmread

        dataset = dcmread(file)
        if reason := _unusable(dataset):
            return reason
    except Exception:
        return "it is a damaged DICOM file"
    try:
        return _picture(dataset)
    except Exception:
        return f"its pixels cannot be decoded ({_compression(dataset)})"


def patient_of(path: Path) -> bytes | None:
    """Return a name for the patient that means nothing outside this process; None if the file has none."""
    _silence()
    try:
        with path.open("rb") as file:
            if not can_read() or not is_dicom(file.read(132)):
                return None
        from pydicom import dcmread

        dataset = dcmread(path, stop_before_pixels=True, specific_tags=["PatientID", "IssuerOfPatientID"])
        patient = [str(dataset.get(tag, "")).strip() for tag in ("PatientID", "IssuerOfPatientID")]
    except Exception:
        return None
    return hmac.new(KEY, "\0".join(patient).encode(), hashlib.sha256).digest() if patient[0] else None


def _unusable(dataset: Dataset) -> str | None:
    if not any(name in dataset for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        return "it has no picture"
    if (frames := int(dataset.get("NumberOfFrames") or 1)) > 1:
        return f"it has {frames} frames, and one file must be one picture"
    if str(dataset.get("BurnedInAnnotation", "")).strip().upper() == "YES":
        return "it says that patient data are written into the picture"
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and int(dataset.Rows) * int(dataset.Columns) > limit:
        return "it is too large"
    return None


def _picture(dataset: Dataset) -> Image.Image | Deep:
    from pydicom.pixels.processing import apply_color_lut, apply_modality_lut
    from pydicom.pixels.utils import pixel_array

    stored = pixel_array(dataset)
    kind = str(dataset.PhotometricInterpretation)
    if kind == "PALETTE COLOR":
        colours = apply_color_lut(stored, dataset)
        return Image.fromarray(_of_bytes(colours, 8 * colours.itemsize))
    if stored.ndim == 3:
        return Image.fromarray(_of_bytes(stored, int(dataset.BitsStored)))
    values = np.asarray(apply_modality_lut(stored, dataset), np.float64)
    window, inverted = _window(dataset), kind == "MONOCHROME1"
    if stored.dtype == np.uint8 and window is None and np.array_equal(values, stored):
        return Image.fromarray(255 - stored if inverted else stored)
    if window is None:  # padding around the picture is no part of it
        inside = values[stored != dataset.get("PixelPaddingValue")]
        if inside.size and inside.max() > inside.min():
            window = (float(inside.max() + inside.min()) / 2, float(inside.max() - inside.min()))
    hounsfield = dataset.get("Modality") == "CT" or dataset.get("RescaleType") == "HU"
    return of_values(values, window, inverted=inverted, hounsfield=hounsfield)


def _window(dataset: Dataset) -> Window | None:
    """Return the first window that the file states."""
    level, width = (_first(dataset.get(name)) for name in ("WindowCenter", "WindowWidth"))
    return None if level is None or width is None or width <= 0 else (level, width)


def _first(value: Any) -> float | None:
    if value is None or value == "":
        return None
    found = float(value[0] if hasattr(value, "__len__") and not isinstance(value, str) else value)
    return found if np.isfinite(found) else None


def _of_bytes(colours: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    return (colours >> max(0, bits - 8)).astype(np.uint8)


def _compression(dataset: Dataset) -> str:
    """Return how the pixels are compressed: a name of the standard's, nothing of the file's own."""
    try:
        syntax = dataset.file_meta.TransferSyntaxUID
        return str(syntax.name) if not syntax.is_private and syntax.is_transfer_syntax else "unknown"
    except Exception:
        return "unknown"


def _silence() -> None:
    """Let the libraries say nothing: their warnings quote what a file says."""
    warnings.filterwarnings("ignore", module=r"pydicom(\..*)?$")
    logging.getLogger("pydicom").disabled = True
    if can_read():
        from pydicom import config

        config.settings.reading_validation_mode = config.IGNORE
    if find_spec("gdcm") is not None:
        import gdcm

        for speaker in (gdcm.Trace.WarningOff, gdcm.Trace.ErrorOff, gdcm.Trace.DebugOff):
            speaker()

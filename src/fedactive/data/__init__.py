"""Datasets: their catalogue, how they are read from disk, and how their official files are downloaded.

The names below are imported when first used, so that the catalogue is there without PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedactive.data.catalog import DATASETS
    from fedactive.data.dataset import Dataset
    from fedactive.data.downloader import download
    from fedactive.data.loader import check, find_classes, load

__all__ = ["DATASETS", "Dataset", "check", "download", "find_classes", "load"]

MODULES = {
    "DATASETS": "catalog",
    "Dataset": "dataset",
    "check": "loader",
    "download": "downloader",
    "find_classes": "loader",
    "load": "loader",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)

"""Datasets: the catalogue of them, reading them from disk, and fetching their official files."""

from fedactive.data.catalog import DATASETS
from fedactive.data.dataset import Dataset
from fedactive.data.download import download
from fedactive.data.load import check, find_classes, load

__all__ = ["DATASETS", "Dataset", "check", "download", "find_classes", "load"]

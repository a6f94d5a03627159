"""The samples that clients see: a dataset's images, resized if so wished, or their features by a backbone."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from fedactive.backbones.embedding import embed
from fedactive.backbones.find import find_backbone
from fedactive.data.dataset import Dataset
from fedactive.data.loader import load
from fedactive.data.own_features import standardise
from fedactive.data.resize import resize
from fedactive.engines.device import choose_device
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.progress import Callback, Silent
from fedactive.registry import MODELS

SILENT = Silent()


def load_inputs(experiment: Experiment, progress: Callback = SILENT) -> Dataset:
    """Read the experiment's dataset and make of it what clients see."""
    e = experiment
    data = read_dataset(e, progress)
    if not (e.backbone or e.image_size or e.weights == "pretrained"):
        return data
    require_images(e, data)
    origin = data.fingerprint
    if e.backbone:
        train, test = standardise(*(part.numpy() for part in embed_dataset(e, data, progress)))
        return replace(data, train_inputs=train, test_inputs=test, mean=(), std=(), origin=origin)
    if e.image_size:
        train, test = (resize(images, e.image_size) for images in (data.train_inputs, data.test_inputs))
        data = replace(data, train_inputs=train, test_inputs=test, origin=origin)
    if e.weights == "pretrained":  # they were trained with a normalisation of their own
        published, channels = MODELS[e.model].published, data.input_shape[0]
        data = replace(data, mean=published.mean[:channels], std=published.std[:channels])
    return data


def read_dataset(experiment: Experiment, progress: Callback) -> Dataset:
    """Read the dataset as it is, or its image files at the experiment's size."""
    try:
        return load(*experiment.source, progress.on_reading)
    finally:
        progress.end_reading()


def require_images(experiment: Experiment, data: Dataset) -> None:
    if len(data.input_shape) == 3:
        return
    field = next(field for field in ("backbone", "image_size", "weights") if getattr(experiment, field))
    allowed = f"none with {data.name}, which holds features in place of images"
    raise ConfigurationError(field, getattr(experiment, field), allowed)


def embed_dataset(experiment: Experiment, data: Dataset, progress: Callback) -> tuple[Tensor, Tensor]:
    """Compute the features of the training and test images, or read them where they were computed before."""
    backbone = find_backbone(experiment.backbone, experiment.backbone_options)
    done, total = 0, len(data.train_inputs) + len(data.test_inputs)

    def report(count: int) -> None:
        nonlocal done
        done += count
        progress.on_embedding(done, total)

    device = choose_device(experiment.device)
    try:
        train, test = (
            embed(backbone, images, experiment.image_size, device, report)
            for images in (data.train_inputs, data.test_inputs)
        )
    finally:
        progress.end_embedding()
    return train, test

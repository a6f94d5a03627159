"""Write the features of a dataset's images as a file that stands for the dataset."""

from __future__ import annotations

import io

import numpy as np

from fedactive.experiment import Experiment
from fedactive.laboratory.inputs import embed_dataset, read_dataset, require_images
from fedactive.progress import Callback


def features_file(experiment: Experiment, progress: Callback) -> tuple[bytes, str]:
    """Return the content of the .npz file with the features as the backbone makes them, and what is in it."""
    e = experiment
    data = read_dataset(e, progress)
    require_images(e, data)
    train, test = embed_dataset(e, data, progress)
    arrays = {
        "train_features": train.numpy(),
        "train_labels": data.train_labels.numpy(),
        "test_features": test.numpy(),
        "test_labels": data.test_labels.numpy(),
        "classes": np.array(data.classes),
    }
    if data.train_clients is not None:
        arrays["train_clients"] = data.train_clients.numpy()
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    counts = f"{len(train)} training and {len(test)} test samples of {train.shape[1]} features"
    return buffer.getvalue(), f"{counts}, {len(data.classes)} classes"

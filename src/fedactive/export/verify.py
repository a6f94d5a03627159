"""Compare before anything is written: the network with training, and the file with the network."""

from __future__ import annotations

from typing import NamedTuple

from fedactive.data.resize import resize
from fedactive.errors import RunError
from fedactive.export.formats import Predict, run_on
from fedactive.export.run_model import CPU, RunModel

# Of probabilities.
FROM_TRAINING = 0.02  # in the mean: a GPU makes embeddings in bfloat16, which rounds them
FROM_NETWORK = 1e-3  # at most


class Differences(NamedTuple):
    """By how much probabilities differ at most."""

    file: float  # of the file from the network
    training: float  # of the network from training, on the pixels that training saw
    resizing: float  # by the file's own resizing, which rounds pixels in another way


def verify(model: RunModel, predict: Predict) -> Differences:
    """Measure the differences; RunError if the file must not be used."""
    network, d = run_on(model.network, CPU), model.description
    ours = network(model.samples)
    as_trained = ours
    others = model.samples[:1]
    if d.takes_images:
        as_trained = network(resize(model.samples, (d.input_shape[1], d.input_shape[2])))
        height, width = model.samples.shape[2:]
        others = resize(model.samples[:3], (height + 5, 2 * width))  # of another size and number
    off = (as_trained - model.expected).abs()
    if not off.mean() <= FROM_TRAINING:
        raise RunError(
            f"{model.folder}: the whole model does not compute what was trained: probabilities of "
            f"{len(ours)} test samples differ by {off.mean():.2g}; if data or backbone were changed since, train again"
        )
    pairs = ((predict(samples), network(samples)) for samples in (model.samples, others))
    difference = max((found - expected).abs().max().item() for found, expected in pairs)
    if not difference <= FROM_NETWORK:
        raise RunError(
            f"this format does not compute what the network does: probabilities differ by {difference:.2g}; "
            "choose another format"
        )
    return Differences(difference, off.max().item(), (ours - as_trained).abs().max().item())

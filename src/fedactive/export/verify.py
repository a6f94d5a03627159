"""Compare before anything is written: the network with training, and the file with the network."""

from __future__ import annotations

from fedactive.data.resize import resize
from fedactive.errors import RunError
from fedactive.export.formats import Predict, run_on
from fedactive.export.run_model import CPU, RunModel

SAME_CLASS = 0.95  # of the samples; embeddings of a GPU in bfloat16 are rounded
TOLERANCE = 1e-3  # of a probability


def verify(model: RunModel, predict: Predict) -> float:
    """Return by how much a probability differs at most; RunError if the file must not be used."""
    network = run_on(model.network, CPU)
    ours = network(model.samples)
    same = (ours.argmax(1) == model.expected.argmax(1)).float().mean().item()
    if same < SAME_CLASS:
        raise RunError(
            f"{model.folder}: the whole model agrees with training on {same:.0%} of {len(ours)} test samples "
            "only; if weights, data or backbone were changed since, train again"
        )
    difference = (predict(model.samples) - ours).abs().max().item()
    if model.description.takes_images:  # of another size, and another number of them
        _, height, width = model.samples.shape[1:]
        others = resize(model.samples[:3], (height + 5, 2 * width))
        difference = max(difference, (predict(others) - network(others)).abs().max().item())
    if not difference <= TOLERANCE:
        raise RunError(
            f"this format does not compute what the network does: probabilities differ by {difference:.2g}; "
            "choose another format"
        )
    return difference

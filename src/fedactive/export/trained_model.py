"""A trained model to predict with, from a run folder or an exported file."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from fedactive.backbones.embedding import workers
from fedactive.engines.device import choose_device, usable_cores
from fedactive.errors import DataError, RunError
from fedactive.export.description import Description
from fedactive.export.formats import Predict, format_of, run_on
from fedactive.export.run_model import read_run_model
from fedactive.export.samples import Given, find_samples, warn_left_out
from fedactive.files import expand_home
from fedactive.progress import Callback, Silent

AT_A_TIME = 128  # samples that are in memory
PIXELS = {"cpu": 4 * 224 * 224, "cuda": 256 * 224 * 224}  # of one batch

Report = Callable[[int, int], None]  # told how many samples are done, of how many


@dataclass(frozen=True)
class TrainedModel:
    description: Description
    probabilities: Predict
    device: torch.device

    @property
    def classes(self) -> tuple[str, ...]:
        return self.description.classes

    def predict(self, images: Given, report: Report = lambda done, total: None) -> pd.DataFrame:
        """Return a row for each image: its name, the likeliest class, and the probability of each class.

        `images` are paths of images, of folders or of .npz files, or an array: uint8 (n, height, width[, 3]),
        or features (n, d) for a model that takes these. What cannot be read is left out, with a warning.
        """
        samples = find_samples(images, self.description)
        names: list[str] = []
        found: list[Tensor] = []
        unreadable = ""
        rest = iter(samples)
        with workers(self.device) as run, ThreadPoolExecutor(usable_cores()) as readers:
            for first in range(0, len(samples), AT_A_TIME):
                part = list(islice(rest, AT_A_TIME))
                inputs = []
                for sample, tensor in zip(part, readers.map(lambda one: one.read(), part), strict=True):
                    if isinstance(tensor, str):
                        unreadable = unreadable or f"{sample.name}: {tensor}"
                        warn_left_out(sample.name, tensor)
                    else:
                        names.append(sample.name)
                        inputs.append(tensor)
                if inputs:
                    found += run(self.probabilities, torch.stack(inputs).split(self.batch))
                report(first + len(part), len(samples))
        if not found:
            raise DataError(f"none of {len(samples)} images can be read; the first is {unreadable}")
        return self.table(names, torch.cat(found))

    @property
    def batch(self) -> int:
        """How many samples to compute at a time."""
        _, *sides = self.description.input_shape
        pixels = sides[0] * sides[1] if sides else 1
        return max(1, min(AT_A_TIME, PIXELS[self.device.type] // pixels))

    def table(self, names: list[str], probabilities: Tensor) -> pd.DataFrame:
        columns = [f"p({name})" for name in self.classes]
        table = pd.DataFrame(probabilities.numpy(), columns=columns)
        # Bytes of names that are no text are escaped.
        table.insert(0, "image", [name.encode(errors="backslashreplace").decode() for name in names])
        table.insert(1, "prediction", [self.classes[k] for k in probabilities.argmax(1).tolist()])
        return table


def load_model(
    path: str | PathLike[str],
    *,
    data_dir: str | PathLike[str] | None = None,
    device: str = "auto",
    progress: Callback | None = None,
) -> TrainedModel:
    """Load the model of a run folder, or of a file that `fedactive export` wrote.

    A run's model may need its dataset: `data_dir` is the folder in which that is, if not where it was.
    """
    place, where = expand_home(Path(path)), choose_device(device)
    if place.is_dir():
        moved = expand_home(Path(data_dir)) if data_dir else None
        model = read_run_model(place, progress or Silent(), moved)
        return TrainedModel(model.description, run_on(model.network, where), where)
    if not place.is_file():
        raise RunError(f"{place}: there is no such run folder or file")
    predict, description = format_of(place).decode(place.read_bytes(), str(place), where)
    return TrainedModel(description, predict, where)

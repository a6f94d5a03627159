"""The tables of a run, read from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedactive.record.state import round_accuracy
from fedactive.record.tables import read_frame


@dataclass(frozen=True)
class RunTables:
    """What a run has written; an AL round appears once it is complete."""

    folder: Path

    @property
    def metrics(self) -> pd.DataFrame:
        """One row per evaluated model: `al_round, fl_round, labelled, model, client, accuracy, loss, ...`."""
        return read_frame(Path(self.folder), "metrics")

    @property
    def selections(self) -> pd.DataFrame:
        """One row per labelled sample: `al_round, client, rank, sample, label, score`."""
        return read_frame(Path(self.folder), "selections")

    @property
    def timings(self) -> pd.DataFrame:
        """The seconds that each phase took: `al_round, phase, seconds`."""
        return read_frame(Path(self.folder), "timings")

    @property
    def accuracy(self) -> pd.Series:
        """Test accuracy of the global model by AL round (mean of its last five FL rounds)."""
        return round_accuracy(self.metrics)

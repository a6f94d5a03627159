"""The best global model of an AL round, to go back to when the accuracy collapses.

A bad update that passes every check, or a learning rate that is too high, can ruin the model in one FL round.
best.pt in the run's folder has the server's state with the best accuracy of this AL round so far.
"""

from __future__ import annotations

import io
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, State
from fedactive.federated.weights import Weights
from fedactive.files import write_atomically


@dataclass(frozen=True)
class Best:
    al_round: int
    fl_round: int
    weights: Weights
    state: State
    evaluation: Evaluation


class BestModel:
    def __init__(self, folder: Path, collapse: float) -> None:
        """`collapse`: how much accuracy a model may lose since the best one."""
        self.file = folder / "best.pt"
        self.collapse = collapse

    def judge(self, server: Server, evaluation: Evaluation, al_round: int, fl_round: int) -> Best | None:
        """Remember this model if it is the best yet; return the one to go back to if it has collapsed."""
        if math.isnan(evaluation.accuracy):
            return None  # there were no test images
        best = self.read(al_round)
        if best is None or evaluation.accuracy > best.evaluation.accuracy:
            self.write(Best(al_round, fl_round, server.weights, server.state, evaluation))
            return None
        return best if evaluation.accuracy < best.evaluation.accuracy - self.collapse else None

    def read(self, al_round: int) -> Best | None:
        """Return the best model of this AL round, if one has been measured."""
        if not self.file.exists():
            return None
        saved = torch.load(self.file, weights_only=True)
        saved["evaluation"] = Evaluation(**saved["evaluation"])
        return Best(**saved) if saved["al_round"] == al_round else None

    def write(self, best: Best) -> None:
        buffer = io.BytesIO()
        torch.save(vars(best) | {"evaluation": asdict(best.evaluation)}, buffer)
        write_atomically(self.file, buffer.getvalue())

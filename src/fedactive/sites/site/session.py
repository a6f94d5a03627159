"""One run at one site: the laboratory's simulation of a single client, and what must survive a restart.

    round-R.json     what AL round R asked people for (see asked.py)
    training.pt      the federated algorithm's state here, before and after the last FL round; how many
                     updates were sent, the sum of their ρ (see privacy.py), and the last one itself

Labels are in the label store.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedactive.data import Dataset
from fedactive.data.catalog import DatasetCard
from fedactive.evaluation import Evaluation
from fedactive.experiment import Experiment
from fedactive.federated.algorithm import Server, Update
from fedactive.federated.weights import Weights, placed
from fedactive.federation import QueryPhase
from fedactive.files import write_atomically
from fedactive.laboratory.run import EngineShelf
from fedactive.laboratory.simulation import Simulation
from fedactive.laboratory.split import Split, first_labels
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.messages import Value
from fedactive.sites.site.asked import AskedRounds
from fedactive.sites.site.privacy import DELTA, Cover, clipped_and_noised, epsilon, rho_of

log = logging.getLogger(__name__)

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Holdings:
    """What a site brings: images of its own, and test images with their classes if it has any."""

    images: Tensor  # uint8, (n, channels, size, size)
    test_images: Tensor
    test_labels: Tensor


class Session:
    def __init__(
        self,
        run: str,
        experiment: Experiment,
        card: DatasetCard,
        client: int,
        budget: int,
        cover: Cover,
        holdings: Holdings,
        store: LabelStore,
        folder: Path,
    ) -> None:
        """`client` is the number of this site in the federation, from which its randomness comes."""
        self.run = run
        self.folder = folder
        self.holdings = holdings
        self.cover = cover
        self.settings = repr((experiment, card, client, budget, cover))  # all that an answer may depend on
        folder.mkdir(parents=True, exist_ok=True)
        self.asked = AskedRounds(run, folder, store, experiment.rounds)
        self.asked.open_missing()
        if not cover.clip:
            log.info("run %s: updates are sent as they are, neither clipped nor noised", run)
        unknown = torch.full((len(holdings.images),), -1)
        dataset = Dataset(
            name=card.name,
            train_images=holdings.images,
            train_labels=unknown,
            test_images=holdings.test_images,
            test_labels=holdings.test_labels,
            classes=card.classes,
            mean=card.mean,
            std=card.std,
        )
        pool = np.arange(len(holdings.images))
        first = first_labels(experiment.seed, client, pool, budget)
        self.engines = EngineShelf()
        self.simulation = Simulation(
            experiment, Split([pool], [first], budget), self.engines.get(experiment, dataset), [client]
        )

    def close(self) -> None:
        self.engines.close()

    # --- the active learning step

    def query(
        self, al_round: int, weights: Weights | None, overlap: int, deadline: datetime | None
    ) -> dict[str, Any]:
        """Which images to ask for in this round, decided once, and how good the local-only model is."""
        asked = self.asked.find(al_round)
        if asked is None:
            self.recall(al_round - 1)
            there = placed(weights, self.simulation.engine.device) if weights else None
            phase: QueryPhase = self.simulation.query(al_round, there)
            samples = phase.queries[0].samples
            asked = {
                "samples": samples.tolist(),
                "strategy": self.simulation.experiment.strategy if there else "random",  # without a model
                "overlap": overlap,
                "deadline": deadline.timestamp() if deadline else None,
                "guesses": self.guesses(there, samples) if there else [],
                "local_only": [self.counted(evaluation) for evaluation in phase.local_only],
            }
            self.asked.keep(al_round, asked)
        self.asked.open_missing()
        return asked

    def guesses(self, weights: Weights, samples: Tensor) -> list[tuple[int, float]]:
        """The global model's class for each of these images, and its probability, for people who ask."""
        logits, _ = self.simulation.engine.infer(weights, self.holdings.images[samples])
        sure, classes = logits.softmax(1).max(1)
        return list(zip(classes.tolist(), sure.tolist(), strict=True))

    def recall(self, al_round: int) -> None:
        """Set the client's D_k and U_k to what they were when the labelling of this round was closed."""
        asked = self.asked.samples_until(al_round)
        labels = self.asked.labels_at_close(al_round)
        known = [sample for sample in asked if sample in labels]
        everything = torch.arange(len(self.holdings.images))
        # What people were asked and did not label (yet) is not asked for again.
        given_up = torch.tensor([sample for sample in asked if sample not in labels], dtype=torch.long)
        self.simulation.pools = [everything[~torch.isin(everything, given_up)]]
        self.simulation.known = [torch.tensor(known, dtype=torch.long)]
        self.simulation.oracle = torch.full((len(everything),), -1)
        self.simulation.oracle[known] = torch.tensor([labels[sample] for sample in known], dtype=torch.long)

    # --- the federated learning step

    def train(self, server: Server, al_round: int, fl_round: int) -> Update | None:
        """This client's update; None without a label to learn from.

        The same question gets what was sent before: fresh noise each time would average out. Any other gets
        fresh noise, which counts: with the same noise the difference of two answers would have none.
        """
        last = self.last_training()
        again = (last["al_round"], last["fl_round"]) == (al_round, fl_round)
        question = f"{al_round} {fl_round} {self.settings} {digest(server.weights)} {digest(server.control)}"
        if last["question"] == question:
            return Update(**last["sent"])
        self.recall(al_round)
        if not self.simulation.labelled()[0]:
            return None
        if last["al_round"] == al_round:
            before = last["before" if again else "after"]
        else:
            before = self.simulation.algorithm.client_start(server)
        there = self.simulation.restore(server, [before])
        (update,) = self.simulation.train(there, al_round, fl_round, [0])
        weights = placed(update.weights, CPU)
        if self.cover.clip:
            weights = clipped_and_noised(weights, server.weights, self.cover)
        state = {
            "al_round": al_round,
            "fl_round": fl_round,
            "before": before,
            "after": placed(self.simulation.own[0], CPU),
            "question": question,
            "updates": last["updates"] + 1,
            "rho": last["rho"] + rho_of(self.cover),
            "sent": {
                "samples": update.samples,
                "weights": weights,
                "control": placed(update.control, CPU),
            },
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_atomically(self.folder / "training.pt", buffer.getvalue())
        if self.cover.clip:
            spent = epsilon(state["rho"])  # whatever the cover was at each update
            log.info("%d updates sent: epsilon %.4g at delta %g", state["updates"], spent, DELTA)
        return Update(**state["sent"])

    def last_training(self) -> dict[str, Any]:
        file = self.folder / "training.pt"
        never = {"al_round": 0, "fl_round": 0, "question": "", "updates": 0, "rho": 0.0}
        return torch.load(file, weights_only=True) if file.exists() else never

    # --- measurements

    def evaluate(self, weights: Weights) -> dict[str, Value]:
        return self.counted(self.simulation.evaluate(weights))

    def counted(self, evaluation: Evaluation) -> dict[str, Value]:
        """An evaluation as counts, which add up over sites; all zero where there are no test images."""
        classes = len(evaluation.class_accuracy)
        tested = torch.bincount(self.holdings.test_labels, minlength=classes).tolist()
        right = [
            round(accuracy * count) if count else 0
            for accuracy, count in zip(evaluation.class_accuracy, tested, strict=True)
        ]
        loss = 0.0 if math.isnan(evaluation.loss) else evaluation.loss
        return {"tested": tested, "right": right, "loss": loss}


def digest(weights: Weights) -> str:
    content = hashlib.sha256()
    for name, value in sorted(weights.items()):
        content.update(repr((name, value.dtype, value.shape)).encode())  # the same bytes can be other numbers
        content.update(value.cpu().numpy().tobytes())
    return content.hexdigest()

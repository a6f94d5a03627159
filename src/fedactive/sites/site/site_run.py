"""One run at one site: the site's client, and what must survive a restart.

    round-R.json     what AL round R asked people for (see query_log.py)
    training.pt      the federated algorithm's state here, before and after the last FL round; how many
                     updates were sent, the sum of their ρ (see privacy.py), and the last one itself
    memory.pt        models of the AL round's training, if the strategy asks for them (see memory.py)

Labels are in the label store.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedactive.client import CPU, Client, first_labels
from fedactive.data.catalog import DatasetCard
from fedactive.data.dataset import Dataset
from fedactive.engines import EngineShelf
from fedactive.evaluation import Evaluation, confusion, evaluate
from fedactive.experiment import Experiment
from fedactive.federated.algorithm import (
    Server,
    State,
    Update,
    as_control_group,
    make_algorithm,
    state_to_device,
)
from fedactive.federated.weights import Weights, to_device
from fedactive.files import write_atomically
from fedactive.memory import Memory
from fedactive.memory import to_device as to_device_together
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.messages import Value
from fedactive.sites.privacy import DELTA, Cover, clip_and_noise, epsilon, require_finite, rho_of
from fedactive.sites.site.query_log import QueryLog

log = logging.getLogger(__name__)

MEMORY = "memory.pt"
MOST_CLASSES = 64  # of which each is compared with each


@dataclass(frozen=True)
class Holdings:
    """What a site has: its images, and test images with their classes if there are any."""

    images: Tensor  # uint8, (n, channels, size, size); their features (n, d) with a backbone
    test_images: Tensor
    test_labels: Tensor
    numbers: tuple[int, ...]  # of the images: what labels and questions call them
    began: int  # so many numbers were given at the site's first start
    known: int  # so many are given, also to images that are gone
    state: str  # stays the same as long as the images do


class SiteRun:
    """Answers what the coordinator asks in one run. Asked again, it answers the same."""

    def __init__(
        self,
        run: str,
        experiment: Experiment,
        card: DatasetCard,
        client: int,
        clients: int,
        budgets: Sequence[int],
        cover: Cover,
        holdings: Holdings,
        store: LabelStore,
        folder: Path,
    ) -> None:
        """`client` is this site's number among the `clients` sites, from which its randomness comes."""
        self.run = run
        self.folder = folder
        self.card = card
        self.holdings = holdings
        self.rows = {number: row for row, number in enumerate(holdings.numbers)}
        self.cover = cover
        stated = (card.window,) if card.window else ()
        self.settings = repr(
            (experiment, card, client, budgets, cover, *stated)
        )  # all that answers depend on
        folder.mkdir(parents=True, exist_ok=True)
        self.queries = QueryLog(run, folder, store, experiment.rounds, card.window)
        self.queries.open_missing()
        if not cover.clip:
            log.info("run %s: updates are sent as they are, neither clipped nor noised", run)
        unknown = torch.full((len(holdings.images),), -1)
        dataset = Dataset(
            name=card.name,
            train_inputs=holdings.images,
            train_labels=unknown,
            test_inputs=holdings.test_images,
            test_labels=holdings.test_labels,
            classes=card.classes,
            mean=() if experiment.backbone else card.mean,
            std=() if experiment.backbone else card.std,
        )
        pool = np.arange(len(holdings.images))
        self.engines = EngineShelf()
        self.engine = self.engines.get(experiment, dataset)
        self.client = Client(
            experiment=experiment,
            number=client,
            pool=torch.from_numpy(pool),
            first=torch.from_numpy(first_labels(experiment, client, pool, budgets)),
            budgets=budgets,
            clients=clients,
        )
        self.algorithm = make_algorithm(experiment.algorithm, experiment.algorithm_options)

    def close(self) -> None:
        self.engines.close()

    # --- the active learning step

    def query(
        self,
        al_round: int,
        weights: Weights | None,
        overlap: int,
        deadline: datetime | None,
        agreed: list[float] | None = None,
    ) -> dict[str, Any]:
        """Choose the images of this round, once, and ask people for their labels; return what was asked."""
        query = self.queries.find(al_round)
        if query is None:
            self.recall(al_round - 1, self.rows, own={})
            there = to_device(weights, self.engine.device) if weights else None
            experiment = self.client.experiment
            phase = self.client.query(self.engine, al_round, there, agreed)
            samples = phase.queries[0].samples
            query = {
                "samples": [self.holdings.numbers[row] for row in samples.tolist()],
                "strategy": experiment.strategy if there else experiment.first,
                "overlap": overlap,
                "deadline": deadline.timestamp() if deadline else None,
                "guesses": self.guesses(there, samples) if there else [],
                "known": self.holdings.known,
                "gone": sorted(set(range(self.holdings.known)) - self.rows.keys()),
                "local_only": [self.to_counts(evaluation) for evaluation in phase.local_only],
            }
            self.queries.write(al_round, query)
        self.queries.open_missing()
        return query

    def summarise(self, al_round: int, weights: Weights | None) -> list[float] | None:
        """Return what the strategy has the site say of itself before this round's query."""
        self.recall(al_round - 1, self.rows, own={})
        there = to_device(weights, self.engine.device) if weights else None
        return self.client.summarise(self.engine, al_round, there)

    def guesses(self, weights: Weights, samples: Tensor) -> list[tuple[int, float]]:
        """Return the global model's class for each image, and its probability, for people who ask."""
        logits, _ = self.engine.infer(weights, self.holdings.images[samples])
        sure, classes = logits.softmax(1).max(1)
        return list(zip(classes.tolist(), sure.tolist(), strict=True))

    def recall(self, al_round: int, rows: Mapping[int, int], own: State) -> None:
        """Make the client what it was when the labelling of this round was closed, and trained so far.

        `rows` are those of the images that take part, by number.
        """
        samples = [sample for sample in self.queries.samples_until(al_round) if sample in rows]
        labels = self.queries.labels_at_close(al_round)
        known = {rows[sample]: labels[sample] for sample in samples if sample in labels}
        self.client.pool = torch.tensor(sorted(rows.values()), dtype=torch.long)
        self.client.recall(known, [rows[sample] for sample in samples if sample not in labels], own)
        self.client.memory = self.read_memory(al_round)

    def rows_in(self, al_round: int) -> dict[int, int]:
        """Return the images that were there when this round chose, and are there now.

        What came or came back meanwhile takes part from the next round on, also if the site starts again.
        """
        query = self.queries.find(al_round) or {}
        known, gone = query.get("known", self.holdings.began), set(query.get("gone", ()))
        return {number: row for number, row in self.rows.items() if number < known and number not in gone}

    def read_memory(self, al_round: int) -> Memory:
        """Read what the site remembers of this AL round: nothing if it has not trained in it."""
        file = self.folder / MEMORY
        if not self.client.strategy.remembers or not file.exists():
            return Memory()
        saved = torch.load(file, weights_only=True)
        memory = Memory(**saved["memory"]) if saved["al_round"] == al_round else Memory()
        return to_device_together([memory], self.engine.device)[0]

    def write_memory(self, al_round: int) -> None:
        """Write it before the update is, so that no update is sent without being remembered."""
        if self.client.strategy.remembers:
            (memory,) = to_device_together([self.client.memory], CPU)
            self.write(MEMORY, {"al_round": al_round, "memory": memory.to_plain()})

    def write(self, name: str, content: dict[str, Any]) -> None:
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_atomically(self.folder / name, buffer.getvalue())

    # --- the federated learning step

    def train(self, server: Server, al_round: int, fl_round: int) -> Update | None:
        """Train and return the update; None without a label to learn from, NotFiniteError if it diverged.

        The same request gets the update that was sent before: new noise each time would average out. Any
        other request gets new noise, which counts: with the same noise, the difference of two answers would
        have none.
        """
        last = self.last_training()
        again = (last["al_round"], last["fl_round"]) == (al_round, fl_round)
        question = f"{al_round} {fl_round} {self.settings} {digest(server.weights)}"
        question += "".join(f" {group} {digest(tensors)}" for group, tensors in sorted(server.state.items()))
        if last["question"] == question:
            return Update(**last["sent"])
        server = replace(server, parameters=tuple(name for name, _ in self.engine.model.named_parameters()))
        if last["al_round"] == al_round:
            before = last["before" if again else "after"]
        else:
            before = self.algorithm.client_start(server)
        self.recall(al_round, self.rows_in(al_round), state_to_device(before, self.engine.device))
        if not len(self.client.labelled):
            return None
        update = self.client.train(self.engine, server.to(self.engine.device), al_round, fl_round)
        weights, extra = to_device(update.weights, CPU), state_to_device(update.state, CPU)
        for tensors in (weights, *extra.values()):
            require_finite(tensors.values())
        if self.cover.clip:
            weights = clip_and_noise(weights, server.weights, self.cover)
        state = {
            "al_round": al_round,
            "fl_round": fl_round,
            "before": before,
            "after": self.client.at_rest().own,
            "question": question,
            "updates": last["updates"] + 1,
            "rho": last["rho"] + rho_of(self.cover),
            "sent": {
                "samples": update.samples,
                "weights": weights,
                "state": extra,
            },
        }
        self.write_memory(al_round)
        self.write("training.pt", state)
        if self.cover.clip:
            spent = epsilon(state["rho"])  # whatever the cover was at each update
            log.info("%d updates sent: epsilon %.4g at delta %g", state["updates"], spent, DELTA)
        return Update(**state["sent"])

    def last_training(self) -> dict[str, Any]:
        file = self.folder / "training.pt"
        never = {"al_round": 0, "fl_round": 0, "question": "", "updates": 0, "rho": 0.0}
        saved: dict[str, Any] = torch.load(file, weights_only=True) if file.exists() else never
        if "control" in saved.get("sent", {}):  # of version 0.1, where SCAFFOLD's variates were no group
            saved |= {when: as_control_group(saved[when]) for when in ("before", "after")}
            saved["sent"]["state"] = as_control_group(saved["sent"].pop("control"))
        return saved

    # --- measurements

    def evaluate(self, weights: Weights) -> dict[str, Value]:
        """Count how the global model does on the site's test images, and what it takes for what."""
        data, classes = self.engine.dataset, self.engine.spec.classes
        logits, _ = self.engine.infer(weights, data.test_inputs)
        counts = self.to_counts(evaluate(logits, data.test_labels, classes))
        if classes <= MOST_CLASSES:
            counts["confusion"] = confusion(logits, data.test_labels, classes)
        return counts

    def to_counts(self, evaluation: Evaluation) -> dict[str, Value]:
        """Return an evaluation as counts, which add up over sites; all zero without test images."""
        return asdict(evaluation) | {"loss": 0.0 if math.isnan(evaluation.loss) else evaluation.loss}


def digest(weights: Weights) -> str:
    content = hashlib.sha256()
    for name, value in sorted(weights.items()):
        content.update(repr((name, value.dtype, value.shape)).encode())  # the same bytes can be other numbers
        content.update(value.cpu().numpy().tobytes())
    return content.hexdigest()

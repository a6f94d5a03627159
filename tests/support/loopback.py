"""A federation in one process: real trainers, real label stores, a transport that is a function call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from fedactive.data.catalog import DatasetCard
from fedactive.data.loader import load
from fedactive.experiment import Experiment
from fedactive.laboratory.split import split
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.messages import Reply, Request
from fedactive.sites.site.site_run import Holdings
from fedactive.sites.site.trainer import Trainer


@dataclass
class Annotator:
    """Labels all that is asked for with the true classes, or cannot tell."""

    store: LabelStore
    truth: list[int]
    busy: bool = True
    skips: bool = False

    def work(self, queue: str = "round") -> None:
        if self.store.annotators.find("ada") is None:
            self.store.annotators.add("ada")
        ada = self.store.annotators.find("ada")
        while self.busy and (requests := self.store.queues.next(ada, queue, 100)):
            for request in requests:
                answer = ("skip", None) if self.skips else ("label", self.truth[request.sample])
                self.store.answers.record(ada, request.sample, *answer)


@dataclass
class Loopback:
    """Delivers each request to its site's trainer; annotators work between requests."""

    trainers: list[Trainer]
    annotators: list[Annotator]
    away: set[int] = field(default_factory=set)
    tamper: Callable[[int, Request, Reply], Reply | None] = lambda k, request, reply: reply
    asked: list[tuple[int, Request]] = field(default_factory=list)

    def online(self) -> set[int]:
        return set(range(len(self.trainers))) - self.away

    def ask(self, requests: Mapping[int, Request], seconds: float) -> dict[int, Reply]:
        replies = {}
        for k, request in requests.items():
            self.asked.append((k, request))
            reply = self.tamper(k, request, self.trainers[k].answer(request))
            self.annotators[k].work()
            if reply is not None:
                replies[k] = reply
        return replies


@dataclass
class Unchanging:
    """Images that neither come nor go."""

    held: Holdings

    def read_holdings(self, card: DatasetCard) -> Holdings:
        return self.held

    def state(self, card: DatasetCard) -> str:
        return self.held.state


def held(images: Tensor, test_images: Tensor, test_labels: Tensor) -> Holdings:
    """Holdings whose images are numbered as they come."""
    n = len(images)
    return Holdings(images, test_images, test_labels, tuple(range(n)), began=n, known=n, state="as ever")


def holdings(experiment: Experiment) -> list[Holdings]:
    """The laboratory's clients as sites: each has its pool in order, and a share of the test images."""
    data = load(experiment.dataset, experiment.data_dir)
    pools = split(experiment, data.train_labels, len(data.classes)).pools
    share = [slice(k, None, experiment.clients) for k in range(experiment.clients)]
    return [
        held(data.train_inputs[pool], data.test_inputs[part], data.test_labels[part])
        for pool, part in zip(map(torch.from_numpy, pools), share, strict=True)
    ]


def truths(experiment: Experiment) -> list[list[int]]:
    data = load(experiment.dataset, experiment.data_dir)
    pools = split(experiment, data.train_labels, len(data.classes)).pools
    return [data.train_labels[torch.from_numpy(pool)].tolist() for pool in pools]


def loopback(experiment: Experiment, folder: Path) -> Loopback:
    classes = load(experiment.dataset, experiment.data_dir).classes
    trainers, annotators = [], []
    for k, (there, truth) in enumerate(zip(holdings(experiment), truths(experiment), strict=True)):
        store = LabelStore(folder / f"site{k}" / "labels.sqlite")
        images = Unchanging(there)
        trainers.append(Trainer(folder / f"site{k}" / "runs", store, classes, images, "cpu"))
        annotators.append(Annotator(store, truth))
    return Loopback(trainers, annotators)


def site_selections(trainer: Trainer, run: str, rounds: int) -> list[list[int]]:
    site_run = trainer.site_run
    assert site_run is not None
    assert site_run.run == run
    return [site_run.queries.find(r)["samples"] for r in range(1, rounds + 1)]


__all__ = ["Annotator", "Loopback", "Unchanging", "held", "holdings", "loopback", "site_selections", "truths"]

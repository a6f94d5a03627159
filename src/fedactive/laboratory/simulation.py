"""All clients in this process: an oracle that knows their labels, and an engine that trains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedactive.client import query_together, train_together
from fedactive.engines.engine import Engine
from fedactive.evaluation import Evaluation
from fedactive.experiment import Experiment
from fedactive.federated.algorithm import Server, Update, make_algorithm, state_to_device
from fedactive.federated.weights import Weights, to_device
from fedactive.federation import Kept, Query, QueryPhase
from fedactive.laboratory.split import Split
from fedactive.memory import Memory
from fedactive.memory import to_device as memories_to_device
from fedactive.pools import require_dropout
from fedactive.randomness import Randomness


class Simulation:
    """A `Federation` on one machine."""

    def __init__(self, experiment: Experiment, split: Split, engine: Engine) -> None:
        self.experiment = experiment
        self.engine = engine
        self.members = split.clients(experiment)
        self.clients = len(self.members)
        self.algorithm = make_algorithm(experiment.algorithm, experiment.algorithm_options)
        require_dropout(self.members[0].strategy, engine.spec)
        self.parameters = [name for name, _ in engine.model.named_parameters()]
        self.oracle = engine.dataset.train_labels.cpu()  # no other code sees labels before they are queried

    # --- the active learning step

    def query(self, al_round: int, weights: Weights | None, agreed: list[float] | None = None) -> QueryPhase:
        return query_together(self.members, self.engine, al_round, weights, agreed)

    def label(self, queries: Sequence[Query]) -> list[Tensor]:
        labels = []
        for query in queries:
            client, samples = self.members[query.client], query.samples
            if len(samples.unique()) < len(samples) or not torch.isin(samples, client.unlabelled).all():
                raise ValueError(f"client {query.client} has labels already, or not the samples")
            labels.append(self.oracle[samples])
            client.label(samples, labels[-1])
        return labels

    def labelled(self) -> list[int]:
        return [len(client.labelled) for client in self.members]

    # --- the federated learning step

    def start_training(self, al_round: int, weights: Weights | None) -> Server:
        if weights is None:
            rng = Randomness(self.experiment.seed).torch("initial weights", al_round)
            weights = self.engine.spec.initial_weights(rng)
        server = self.algorithm.start_server(to_device(weights, self.engine.device), self.parameters)
        for client in self.members:
            client.remember(self.algorithm.client_start(self.algorithm.client_view(server)))
            client.memory = Memory()
        return server

    def train(
        self, server: Server, al_round: int, fl_round: int, participants: Sequence[int]
    ) -> list[Update]:
        chosen = [self.members[k] for k in participants]
        return train_together(chosen, self.engine, self.algorithm.client_view(server), al_round, fl_round)

    def evaluate(self, server: Server, al_round: int, fl_round: int) -> tuple[Server, Evaluation | None]:
        return server, self.engine.evaluate(server.weights) if self.experiment.evaluates(fl_round) else None

    # --- the checkpoint

    def snapshot(self) -> list[Kept]:
        return [Kept(client.own, client.memory) for client in self.members]

    def restore(self, server: Server, snapshot: list[Kept]) -> Server:
        memories = memories_to_device([kept.memory for kept in snapshot], self.engine.device)
        for client, kept, memory in zip(self.members, snapshot, memories, strict=True):
            client.remember(state_to_device(kept.own, self.engine.device))
            client.memory = memory
        return replace(server.to(self.engine.device), parameters=tuple(self.parameters))

"""All clients in this process: their pools, an oracle that knows all labels, an engine that trains them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from fedactive.engines.engine import Engine
from fedactive.errors import UserError
from fedactive.evaluation import Evaluation, evaluate
from fedactive.experiment import Experiment
from fedactive.federated import make_algorithm
from fedactive.federated.algorithm import Server, Trajectory, Update
from fedactive.federated.batches import steps_per_epoch
from fedactive.federated.local_sgd import LocalJob, path_length
from fedactive.federated.schedules import fl_rate, local_only_rates
from fedactive.federated.weights import Weights, placed
from fedactive.federation import LOCAL_ONLY_TRAINING, SCORING, SELECTION, Query, QueryPhase
from fedactive.laboratory.split import Split
from fedactive.query import Outputs, Pool, make_strategy
from fedactive.query.strategy import require_contract
from fedactive.randomness import Randomness


class Simulation:
    """A `Federation` on one machine: all clients, or those of `numbers`, which seed their randomness."""

    def __init__(
        self, experiment: Experiment, split: Split, engine: Engine, numbers: Sequence[int] | None = None
    ) -> None:
        self.experiment = experiment
        self.engine = engine
        self.split = split
        self.clients = len(split.pools)
        self.numbers = numbers or range(self.clients)
        self.randomness = Randomness(experiment.seed)
        self.strategy = make_strategy(experiment.strategy, experiment.selector, experiment.strategy_options)
        self.algorithm = make_algorithm(experiment.algorithm, experiment.mu)
        self.parameters = [name for name, _ in engine.model.named_parameters()]
        self.oracle = engine.dataset.train_labels.cpu()  # the only place that knows labels nobody asked for
        self.pools = [torch.from_numpy(pool).long().sort().values for pool in split.pools]
        self.known: list[Tensor] = [torch.zeros(0, dtype=torch.long) for _ in split.pools]  # D_k, in order
        self.own: list[Weights] = [{} for _ in split.pools]  # the algorithm's state on each client

    # --- the active learning step

    def query(self, al_round: int, weights: Weights | None) -> QueryPhase:
        if weights is None:
            first = [torch.from_numpy(samples).long() for samples in self.split.first]
            return QueryPhase(
                [Query(k, samples, torch.zeros(len(samples))) for k, samples in enumerate(first)]
            )
        seconds: dict[str, float] = {}
        models: dict[str, list[Weights]] = {"global": [weights] * self.clients}
        with self.clock(seconds, LOCAL_ONLY_TRAINING):
            if "local" in self.strategy.needs:
                # One fresh initialisation for all clients, new in each AL round.
                fresh = self.engine.spec.initial_weights(
                    self.randomness.torch("local-only weights", al_round)
                )
                models["local"] = self.train_alone(al_round, fresh)
            if "finetuned" in self.strategy.needs:
                models["finetuned"] = self.train_alone(al_round, weights)
        with self.clock(seconds, SCORING):
            pools = self.views(models)
        with self.clock(seconds, SELECTION):
            queries = self.ask(al_round, pools)
        with self.clock(seconds, "local-only evaluation"):
            accuracy = [self.evaluate(w) for w in models.get("local", [])]
        return QueryPhase(queries, accuracy, seconds)

    def ask(self, al_round: int, pools: list[Pool]) -> list[Query]:
        rngs = [self.randomness.torch("strategy", al_round, number) for number in self.numbers]
        chosen = self.strategy.select_all(pools, self.split.budget, rngs)
        queries = []
        for k, (pool, c) in enumerate(zip(pools, chosen, strict=True)):
            require_contract(self.strategy, c, len(pool), self.split.budget)
            queries.append(Query(k, self.unlabelled(k)[c.indices.cpu()], c.scores.cpu()))
        return queries

    def views(self, models: dict[str, list[Weights]]) -> list[Pool]:
        """What the strategy sees of each client."""

        def weights_of(model: str) -> list[Weights]:
            if model not in models:
                raise UserError(
                    f"strategy {self.strategy.name} asked for the model {model!r}, there is "
                    f"{' and '.join(models)}; its `needs` must name every model that it asks for"
                )
            return models[model]

        @cache  # one model's outputs on all clients' samples, however many strategies or steps ask for them
        def outputs(model: str, labelled: bool) -> list[Outputs]:
            samples = self.known if labelled else [self.unlabelled(k) for k in range(self.clients)]
            images, weights = self.engine.dataset.train_images, weights_of(model)
            if model == "global":  # one model for all: their samples in one go
                logits, z = self.engine.infer(weights[0], images[torch.cat(samples)])
                sizes = [len(s) for s in samples]
                return [Outputs(y, e) for y, e in zip(logits.split(sizes), z.split(sizes), strict=True)]
            return [Outputs(*self.engine.infer(w, images[s])) for w, s in zip(weights, samples, strict=True)]

        def view(k: int) -> Pool:
            return Pool(
                size=len(self.unlabelled(k)),
                classes=self.engine.spec.classes,
                labels=self.oracle[self.known[k]].to(self.engine.device),
                unlabelled=lambda model: outputs(model, labelled=False)[k],
                labelled=lambda model: outputs(model, labelled=True)[k],
                head=lambda model: (weights_of(model)[k]["head.weight"], weights_of(model)[k]["head.bias"]),
            )

        for model in self.strategy.needs:  # ahead of the selection, so that its time is only its own
            outputs(model, labelled=False)
        return [view(k) for k in range(self.clients)]

    def train_alone(self, al_round: int, start: Weights) -> list[Weights]:
        """Θ_k*: each client by itself, on its own labels, until it has learnt them."""
        e = self.experiment
        jobs = [
            LocalJob(
                start=start,
                samples=known,
                labels=self.oracle[known],
                epochs=e.local_only_epochs,
                rates=local_only_rates(
                    e.schedule, e.lr, e.local_only_epochs, steps_per_epoch(len(known), e.batch_size)
                ),
                shuffle=self.randomness.integer("local-only batches", al_round, self.numbers[k]),
                stop_accuracy=e.local_only_stop,
            )
            for k, known in enumerate(self.known)
        ]
        return [result.weights for result in self.engine.train(jobs)]

    def label(self, queries: Sequence[Query]) -> list[Tensor]:
        for q in queries:
            self.known[q.client] = torch.cat([self.known[q.client], q.samples])
        return [self.oracle[q.samples] for q in queries]

    def labelled(self) -> list[int]:
        return [len(known) for known in self.known]

    def unlabelled(self, client: int) -> Tensor:
        """U_k, in the order of the dataset."""
        pool = self.pools[client]
        return pool[~torch.isin(pool, self.known[client])]

    # --- the federated learning step

    def start_training(self, al_round: int, weights: Weights | None) -> Server:
        if weights is None:
            weights = self.engine.spec.initial_weights(self.randomness.torch("initial weights", al_round))
        server = self.algorithm.start(placed(weights, self.engine.device), self.parameters)
        self.own = [self.algorithm.client_start(server) for _ in range(self.clients)]
        return server

    def train(
        self, server: Server, al_round: int, fl_round: int, participants: Sequence[int]
    ) -> list[Update]:
        e = self.experiment
        rate = fl_rate(e.schedule, e.lr, fl_round, e.fl_rounds)
        jobs = []
        for k in participants:
            terms = self.algorithm.terms(server, self.own[k])
            steps = e.local_epochs * steps_per_epoch(len(self.known[k]), e.batch_size)
            jobs.append(
                LocalJob(
                    start=server.weights,
                    samples=self.known[k],
                    labels=self.oracle[self.known[k]],
                    epochs=e.local_epochs,
                    rates=(rate,) * steps,
                    shuffle=self.randomness.integer("batches", al_round, fl_round, self.numbers[k]),
                    proximal=terms.proximal,
                    drift=terms.drift,
                )
            )
        updates = []
        for k, job, result in zip(participants, jobs, self.engine.train(jobs), strict=True):
            trajectory = Trajectory(result.weights, path_length(job.rates, e.momentum))
            self.own[k], update = self.algorithm.client_end(server, self.own[k], trajectory, len(job.samples))
            updates.append(update)
        self.engine.wait()  # the loop takes the time
        return updates

    def evaluate(self, weights: Weights) -> Evaluation:
        data = self.engine.dataset
        logits, _ = self.engine.infer(weights, data.test_images)
        return evaluate(logits, data.test_labels, self.engine.spec.classes)

    @contextmanager
    def clock(self, seconds: dict[str, float], phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.engine.wait()
        seconds[phase] = time.perf_counter() - start

    def snapshot(self) -> list[Weights]:
        return self.own

    def restore(self, server: Server, snapshot: list[Weights]) -> Server:
        self.own = [placed(own, self.engine.device) for own in snapshot]
        return Server(placed(server.weights, self.engine.device), placed(server.control, self.engine.device))

"""One participant of the federation: what it holds, what is labelled, what its algorithm remembers.

The laboratory holds a list of clients in one process, a site of the field is one client, and a Ray worker
wakes one up. `query_together` and `train_together` serve clients that share an engine: that is faster than
one by one and gives the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fedactive.data.budget import budget_in
from fedactive.engines.engine import Engine
from fedactive.experiment import Experiment
from fedactive.federated.algorithm import (
    Algorithm,
    Server,
    State,
    Trajectory,
    Update,
    make_algorithm,
    state_to_device,
)
from fedactive.federated.batches import steps_per_epoch
from fedactive.federated.closed_form import ClosedForm
from fedactive.federated.local_sgd import LocalJob, path_length
from fedactive.federated.objective import make_objective
from fedactive.federated.schedules import fl_rate, local_only_rates
from fedactive.federated.weights import Weights
from fedactive.federation import LOCAL_ONLY_TRAINING, SCORING, SELECTION, Query, QueryPhase, average
from fedactive.memory import Memory, remembered, to_device
from fedactive.pools import infer_samples, make_pools, train_models
from fedactive.query.pool import Pool
from fedactive.query.strategy import Strategy, make_strategy, require_contract, summary_of
from fedactive.randomness import Randomness

NO_SAMPLES = torch.zeros(0, dtype=torch.long)
CPU = torch.device("cpu")
NO_MODEL: Weights = {}


@dataclass
class Client:
    """A participant. Its samples are positions in the training images of the engine that serves it."""

    experiment: Experiment
    number: int  # distinguishes its random generators from other clients'
    pool: Tensor  # all samples it may ask for, in ascending order
    first: Tensor  # labelled in AL round 1, before there is a model
    budgets: Sequence[int]  # labels by AL round; the last is that of all later ones
    clients: int = 1  # how many take part, with this one
    withdrawn: Tensor = field(default_factory=NO_SAMPLES.clone)  # annotators skipped them; not queried again
    labelled: Tensor = field(default_factory=NO_SAMPLES.clone)  # D_k, in the order of labelling
    labels: Tensor = field(default_factory=NO_SAMPLES.clone)  # of `labelled`, in the same order
    own: State = field(default_factory=dict)  # the federated algorithm's state of this client
    memory: Memory = field(default_factory=Memory)  # models of this AL round's training, if a strategy asks

    @property
    def unlabelled(self) -> Tensor:
        """U_k: the samples that may still be queried."""
        return self.pool[~torch.isin(self.pool, torch.cat([self.labelled, self.withdrawn]))]

    @property
    def randomness(self) -> Randomness:
        return Randomness(self.experiment.seed)

    def label(self, samples: Tensor, labels: Tensor) -> None:
        """Add labelled samples: D_k grows, U_k shrinks."""
        self.labelled = torch.cat([self.labelled, samples])
        self.labels = torch.cat([self.labels, labels])

    def recall(self, labels: Mapping[int, int], withdrawn: Sequence[int], own: State) -> None:
        """Restore what was saved: labels by sample, withdrawn samples, the algorithm's state."""
        self.labelled = torch.tensor(list(labels), dtype=torch.long)
        self.labels = torch.tensor(list(labels.values()), dtype=torch.long)
        self.withdrawn = torch.tensor(withdrawn, dtype=torch.long)
        self.remember(own)

    def remember(self, own: State) -> None:
        """Take over the algorithm's state of this client: fresh, saved, or what a worker made of it."""
        self.own = own

    @property
    def strategy(self) -> Strategy:
        return chooser(self.experiment, has_model=True)

    def query(
        self, engine: Engine, al_round: int, weights: Weights | None, agreed: list[float] | None = None
    ) -> QueryPhase:
        """Choose samples to label, with the global model and the client's own models."""
        return query_together([self], engine, al_round, weights, agreed)

    def summarise(self, engine: Engine, al_round: int, weights: Weights | None) -> list[float] | None:
        """Return what the strategy has the client say of itself; None if it has nothing to say."""
        strategy = chooser(self.experiment, weights is not None)
        models = train_models([self], engine, strategy, al_round, weights or before_training(engine))
        (pool,) = make_pools([self], engine, models, strategy, al_round)
        return summary_of(strategy, pool)

    def train(self, engine: Engine, server: Server, al_round: int, fl_round: int) -> Update:
        """Train locally for one FL round."""
        return train_together([self], engine, server, al_round, fl_round)[0]

    def at_rest(self) -> Client:
        """Return a copy with all tensors on the CPU, to be saved or sent."""
        (memory,) = to_device([self.memory], CPU)
        return replace(self, own=state_to_device(self.own, CPU), memory=memory)

    # --- jobs for an engine

    def local_only_job(self, al_round: int, start: Weights) -> LocalJob:
        """Make the job that trains on the client's own labels alone, until it has learnt them.

        It trains with cross entropy, as in LoGo, whatever the objective of federated training is.
        """
        e = self.experiment
        steps = steps_per_epoch(len(self.labelled), e.batch_size)
        return LocalJob(
            start=start,
            samples=self.labelled,
            labels=self.labels,
            epochs=e.local_only_epochs,
            rates=local_only_rates(e.schedule, e.lr, e.local_only_epochs, steps),
            shuffle=self.randomness.integer("local-only batches", al_round, self.number),
            stop_accuracy=e.local_only_stop,
        )

    def federated_job(self, algorithm: Algorithm, server: Server, al_round: int, fl_round: int) -> LocalJob:
        """Make the job that trains from the global weights, with the terms that the algorithm adds."""
        e, terms = self.experiment, algorithm.terms(server, self.own)
        objective = make_objective(e.objective, e.objective_options)
        steps = e.local_epochs * steps_per_epoch(len(self.labelled), e.batch_size)
        return LocalJob(
            start=server.weights,
            samples=self.labelled,
            labels=self.labels,
            epochs=e.local_epochs,
            rates=(fl_rate(e.schedule, e.lr, fl_round, e.fl_rounds),) * steps,
            shuffle=self.randomness.integer("batches", al_round, fl_round, self.number),
            proximal=terms.proximal,
            drift=terms.drift,
            each_epoch="epochs" in self.strategy.remembers,
            objective=objective,
            fl_round=fl_round,
            teacher=server.weights if objective.needs_global or objective.needs_mixed else None,
            pool=self.unlabelled if objective.needs_mixed else NO_SAMPLES,
        )


def first_labels(experiment: Experiment, number: int, pool: np.ndarray, budgets: Sequence[int]) -> np.ndarray:
    """Draw the samples of a client's pool that are labelled before there is a model."""
    rng = Randomness(experiment.seed).numpy("first labels", number)
    return rng.choice(pool, min(budgets[0], len(pool)), replace=False)


def train_together(
    clients: Sequence[Client], engine: Engine, server: Server, al_round: int, fl_round: int
) -> list[Update]:
    """Train these clients for one FL round; `server` is the state that they were sent."""
    if not clients:
        return []
    e, asked = clients[0].experiment, clients[0].strategy.remembers
    algorithm = make_algorithm(e.algorithm, e.algorithm_options)
    if isinstance(algorithm, ClosedForm):
        return [summarise(client, engine, algorithm, server) for client in clients]
    jobs = [client.federated_job(algorithm, server, al_round, fl_round) for client in clients]
    updates = []
    for client, job, result in zip(clients, jobs, engine.train(jobs), strict=True):
        trajectory = Trajectory(result.weights, path_length(job.rates, e.momentum))
        client.own, update = algorithm.client_end(server, client.own, trajectory, len(job.samples))
        updates.append(update)
        if asked:
            made = remembered(asked, fl_round, e.fl_rounds, server.weights, result)
            client.memory = client.memory.add(made)
    engine.wait()  # the loop measures the time
    return updates


def summarise(client: Client, engine: Engine, algorithm: ClosedForm, server: Server) -> Update:
    """Add up the client's labelled samples, as the algorithm does."""
    _, embeddings = infer_samples(engine, server.weights, client.labelled)
    update = algorithm.summarise(server, embeddings, client.labels.to(engine.device))
    engine.wait()  # the loop measures the time
    return update


def query_together(
    clients: Sequence[Client],
    engine: Engine,
    al_round: int,
    weights: Weights | None,
    agreed: list[float] | None = None,
) -> QueryPhase:
    """Choose samples for these clients to label, with the global model `weights` and their own models.

    In AL round 1 there is none: what was drawn at random, or what a strategy finds that needs no model. With
    published weights it sees what these make of the samples.
    """
    e, seconds = clients[0].experiment, dict[str, float]()
    if weights is None and e.first == "random":
        return QueryPhase([Query(k, c.first, torch.zeros(len(c.first))) for k, c in enumerate(clients)])
    strategy = chooser(e, weights is not None)
    lasting = weights is not None and not strategy.tells_each_round
    weights = before_training(engine) if weights is None else weights
    with engine.time_phase(LOCAL_ONLY_TRAINING, seconds):
        models = train_models(clients, engine, strategy, al_round, weights)
    with engine.time_phase(SCORING, seconds):
        pools = make_pools(clients, engine, models, strategy, al_round, agreed)
    with engine.time_phase(SELECTION, seconds):
        if strategy.numbers and agreed is None and len(clients) == clients[0].clients:  # all are here
            agreed = agree(strategy, pools)
        rngs = [Randomness(e.seed).torch("strategy", al_round, client.number) for client in clients]
        budget = budget_in(clients[0].budgets, al_round)
        chosen = strategy.select_all(pools, budget, rngs)
        queries = []
        for k, (client, pool, c) in enumerate(zip(clients, pools, chosen, strict=True)):
            require_contract(strategy, c, len(pool), budget)
            queries.append(Query(k, client.unlabelled[c.indices.cpu()], c.scores.cpu()))
    with engine.time_phase("local-only evaluation", seconds):
        evaluations = [engine.evaluate(local) for local in models.get("local", [])]
    return QueryPhase(queries, evaluations, seconds, agreed if lasting else None)


def chooser(e: Experiment, has_model: bool) -> Strategy:
    """Return the strategy that queries where there is a global model, or before there is one."""
    if not has_model:
        return make_strategy(e.first, "global")
    return make_strategy(e.strategy, e.selector, e.strategy_options)


def before_training(engine: Engine) -> Weights:
    """Return what there is before AL round 1: published weights, under a head that says nothing, or none."""
    if engine.spec.weights != "pretrained":
        return NO_MODEL
    weights = engine.spec.initial_weights(torch.Generator().manual_seed(0))
    silent = {name: torch.zeros_like(weights[name]) for name in ("head.weight", "head.bias")}
    return {name: value.to(engine.device) for name, value in (weights | silent).items()}


def agree(strategy: Strategy, pools: Sequence[Pool]) -> list[float] | None:
    """Average what the clients say of themselves, and tell it all pools."""
    agreed = average(summary_of(strategy, pool) for pool in pools)
    for pool in pools:
        pool.agreed = None if agreed is None else torch.tensor(agreed, dtype=torch.float64)
    return agreed

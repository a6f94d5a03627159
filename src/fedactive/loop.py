"""Federated active learning, the paper's Algorithm 1: read it from top to bottom.

for each AL round r:
    every client queries B samples with Θ^(r-1)* and its local-only model, and has them labelled
    Θ^r* = FL rounds of local training and aggregation on all that is labelled
"""

from __future__ import annotations

import time

import torch

from fedactive.experiment import Experiment
from fedactive.federated.algorithm import make_algorithm
from fedactive.federation import Federation
from fedactive.progress import Callback
from fedactive.randomness import Randomness
from fedactive.record.run_folder import Run
from fedactive.record.state_checks import require_fit


def federated_active_learning(
    experiment: Experiment, federation: Federation, run: Run, progress: Callback
) -> None:
    """Run the experiment to its end, from wherever `run` has got to."""
    algorithm = make_algorithm(experiment.algorithm, experiment.algorithm_options)
    randomness = Randomness(experiment.seed)
    state = run.state
    with run.going_on():
        require_fit(state, experiment, federation)
        federation.label(state.all_queries())
    if state.server:
        state.server = federation.restore(state.server, state.clients)

    for r in range(state.al_round, experiment.rounds + 1):
        if not state.has_queried(r):
            progress.on_query(r)
            phase = federation.query(r, state.server.weights if state.server else None, state.agreed)
            labels = federation.label(phase.queries)
            state.add_queries(r, phase, labels)

            keep = state.server.weights if state.server and experiment.init == "continue" else None
            state.server = federation.start_training(r, keep)
            state.clients = federation.snapshot()
            run.save_if_due()

        for t in range(state.fl_round, experiment.fl_rounds):
            assert state.server is not None
            begun = time.perf_counter()
            participants = choose_participants(
                federation.labelled(), experiment.participation, randomness.torch("participation", r, t)
            )
            updates = federation.train(state.server, r, t, participants)
            if updates:  # none while nobody has a label: annotators may have skipped all queries
                state.server = algorithm.server_end(state.server, updates, federation.clients)
            trained = time.perf_counter()
            state.server, evaluation = federation.evaluate(state.server, r, t)
            if evaluation is not None:
                state.add_evaluation(r, t, evaluation)
            state.add_seconds(r, {"training": trained - begun, "evaluation": time.perf_counter() - trained})

            state.clients = federation.snapshot()
            state.al_round, state.fl_round = (r, t + 1) if t + 1 < experiment.fl_rounds else (r + 1, 0)
            run.save_if_due()
            if evaluation is not None:
                progress.on_evaluation(r, t, evaluation)
        run.save()
        run.write_results()
        progress.on_round(r, state.labelled, state.accuracy_of(r))
        if r == 1:
            run.share_first_round()
    run.finish()


def choose_participants(labelled: list[int], share: float, rng: torch.Generator) -> list[int]:
    """Draw a random share of the clients that have labels to train on, at least one, in ascending order."""
    able = [k for k, count in enumerate(labelled) if count]
    count = max(1, round(share * len(able)))
    return sorted(able[i] for i in torch.randperm(len(able), generator=rng)[:count].tolist())

"""A run folder as it is read, in the parts that have numbers to check by hand."""

import json
import shutil

import numpy as np

from fedactive.analysis.diversity import global_emd_in, local_emd_in, matrices_in
from fedactive.paper.reproduce import experiments
from fedactive.record.run_reader import query_counts, read_run


def test_counts_of_samples_labelled_one_by_one():
    al_round, client, label = np.array([[1, 0, 2], [1, 1, 0], [3, 1, 0], [3, 1, 0]]).T
    counts = query_counts(al_round, client, label, classes=4)
    assert counts.tolist() == [
        [[0, 0, 1, 0], [1, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [2, 0, 0, 0]],
    ]


def made(runs, algorithm="fedavg"):
    return next(e for e in experiments("algorithms", seeds=[1], runs_dir=runs) if e.algorithm == algorithm)


def with_lines(folder, **values):
    """The folder as an earlier version wrote it."""
    file = folder / "experiment.toml"
    newer = ("algorithm_options", *values)
    kept = [line for line in file.read_text().splitlines() if not line.startswith(newer)]
    file.write_text("\n".join([*kept, *(f"{name} = {json.dumps(v)}" for name, v in values.items())]) + "\n")
    return read_run(folder)


def test_runs_of_an_earlier_version_keep_their_identity(store, runs):
    """`mu` was a setting of all runs, and meant something in those of FedProx."""
    prox, scaffold = (store(made(runs, name), [0.5]) for name in ("fedprox", "scaffold"))
    today = {folder: read_run(folder).identity for folder in (prox, scaffold)}
    assert with_lines(prox, mu=0.01).identity == today[prox]
    assert with_lines(scaffold, mu=0.5).identity == today[scaffold]
    shutil.copytree(prox, runs / "other")
    other = with_lines(runs / "other", mu=0.1)
    assert dict(other.identity)["algorithm_options"] == "mu=0.1"
    assert other.unknown == []


def test_what_only_the_sites_know_has_no_balance(store, runs):
    folder = store(made(runs, "fedprox"), [0.5, 0.6], labels=[[[-1], [-1]]] * 2, local=[[0.5] * 10] * 2)
    run = read_run(folder)
    assert run.queried.size == 0
    assert np.isnan([local_emd_in(run, 1), global_emd_in(run, 1)]).all()
    assert matrices_in(run, 1) is None
    assert run.accuracy_in(2) > run.accuracy_in(1)

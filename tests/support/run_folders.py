"""Run folders written by the package's own code, with accuracies and labels that the test decides."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch

from fedactive.federation import Query, QueryPhase
from fedactive.record.finding import runs_in
from fedactive.record.run_folder import Run
from support.evaluations import evaluation


@pytest.fixture(scope="session")
def store():
    """`store(experiment, accuracies)`: a run that has completed one AL round per accuracy (a share)."""

    def write(experiment, accuracies, labels=None, local=None, finish=None):
        """`labels[r][k]` are what client k had labelled in AL round r + 1; two of class 0 by default."""
        clients = 2 if labels is None else len(labels[0])
        with closing(Run(experiment)) as run:
            each = 100 + max((len(own) for asked in labels or [] for own in asked), default=0)
            run.begin([np.arange(each * k, each * k + each) for k in range(clients)], "cpu", "sequential")
            for r, accuracy in enumerate(accuracies, 1):
                asked = [
                    torch.tensor(of_client) for of_client in (labels[r - 1] if labels else [[0, 0]] * clients)
                ]
                queries = [Query(k, torch.arange(len(y)), torch.zeros(len(y))) for k, y in enumerate(asked)]
                alone = [evaluation(per_class) for per_class in local or []] if r > 1 else []
                seconds = {
                    "local-only training": 2.0,
                    "scoring": 1.0,
                    "selection": 1.0,
                    "local-only evaluation": 9.0,
                }
                run.state.add_queries(r, QueryPhase(queries, alone, seconds if r > 1 else {}), asked)
                shifts = [-0.5, -0.02, -0.01, 0, 0.01, 0.02]  # only the last five count
                for t, shift in enumerate(shifts[: experiment.fl_rounds]):
                    run.state.add_evaluation(r, t, evaluation([max(0, accuracy + shift)] * 10))
                run.state.al_round = r + 1
            if accuracies:
                run.write_results()
            if len(accuracies) == experiment.rounds if finish is None else finish:
                run.finish()
        return run.folder

    return write


def runs_of(folder):
    """All runs in a folder, if there are any; they must be sound."""
    runs, skipped = runs_in(folder)
    assert not runs or not skipped, skipped
    return runs


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"

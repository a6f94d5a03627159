"""When to go back to the best model."""

from __future__ import annotations

import math

import pytest
import torch

from fedactive.evaluation import Evaluation
from fedactive.federated import Server
from fedactive.sites.coordinator.best_model import BestModel


def measured(percent, classes=10):
    """An evaluation on a hundred images of the first class."""
    counts = [100] + [0] * (classes - 1)
    return Evaluation(counts, [percent] + [0] * (classes - 1), counts, 0.5)


def server(number):
    return Server({"w": torch.tensor([float(number)])}, state={"m": {"w": torch.tensor([-float(number)])}})


def judge(best, *percents, al_round=1):
    """What was judged about the last of these accuracies."""
    for t, percent in enumerate(percents):
        found = best.judge(server(t), measured(percent), al_round, t)
    return found


@pytest.mark.parametrize(
    ("percents", "back_to"),
    [
        ([70], None),
        ([70, 71], None),
        ([70, 41], None),
        ([70, 39], 0),
        ([60, 80, 70, 49], 1),
        ([60, 80, 49, 51], None),
    ],
    ids=str,
)
def test_a_model_that_has_lost_too_much_is_given_up(tmp_path, percents, back_to):
    found = judge(BestModel(tmp_path, 0.3), *percents)
    assert (found.fl_round if found else None) == back_to
    if found:
        assert found.weights["w"] == back_to
        assert found.state["m"]["w"] == -back_to
        assert found.evaluation == measured(percents[back_to])


def test_it_survives_a_restart_and_ends_with_the_al_round(tmp_path):
    judge(BestModel(tmp_path, 0.3), 50, 70)
    assert judge(BestModel(tmp_path, 0.3), 20).fl_round == 1
    assert judge(BestModel(tmp_path, 0.3), 20, al_round=2) is None
    assert judge(BestModel(tmp_path, 0.3), 5, al_round=2) is None


def test_never(tmp_path):
    assert judge(BestModel(tmp_path, 1.0), 100, 0) is None


def test_without_test_images_nothing_is_known(tmp_path):
    best, nothing = BestModel(tmp_path, 0.3), Evaluation([0, 0], [0, 0], [0, 0], math.nan)
    assert best.judge(server(0), nothing, 1, 0) is None
    assert judge(best, 70) is None
    assert best.judge(server(0), nothing, 1, 0) is None
    assert judge(best, 30) is not None

"""Early stop by the loss on a job's own samples."""

import pytest
import torch

from fedactive.federated.local_sgd import LocalJob
from fedactive.federated.own_loss import OwnLoss
from support.tiny import ZERO, train_tiny

LABELS = torch.tensor([0, 1])


def logits(loss):
    """Two samples whose cross entropy is `loss`."""
    right = torch.tensor(-loss).exp()
    row = torch.stack([right, 1 - right]).log()
    return torch.stack([row, row.flip(0)])


def follow(losses, patience, first=9.0):
    job = LocalJob({}, LABELS, LABELS, 99, (), 0, patience=patience)
    own = OwnLoss(job, logits(first), None)
    return [bool(own.is_over(logits(loss))) for loss in losses]


@pytest.mark.parametrize(
    ("losses", "patience", "over"),
    [
        ([3.0, 2.0, 2.5, 1.0], 2, [False] * 4),
        ([3.0, 2.0, 2.5, 2.2], 2, [False, False, False, True]),
        ([3.0, 4.0, 5.0], 1, [False, True, True]),
        ([9.5, 9.0, 9.1], 3, [False, False, True]),  # the loss at the beginning counts
    ],
)
def test_a_job_is_over_after_so_many_epochs_without_a_lower_loss(losses, patience, over):
    assert follow(losses, patience) == over


def test_a_loss_that_is_not_a_number_is_not_lower():
    assert follow([float("nan"), float("nan")], 2) == [False, True]


def test_training_ends_then():
    """At x = 1 with class 0 each step lowers the loss; a rate of 0 never does."""
    learning = train_tiny(epochs=4, rates=(0.1,) * 4, patience=2)
    assert learning.steps == 4
    still = train_tiny(epochs=4, rates=(0.0,) * 4, patience=2, each_epoch=True)
    assert still.steps == len(still.epochs) == 2
    assert all(torch.equal(still.weights[name], ZERO[name]) for name in ZERO)


def test_the_weights_after_each_epoch_are_those_of_shorter_jobs():
    whole = train_tiny(epochs=3, rates=(0.1,) * 3, each_epoch=True)
    for epochs, after in enumerate(whole.epochs, start=1):
        short = train_tiny(epochs=epochs, rates=(0.1,) * epochs)
        assert short.epochs == ()
        assert all(torch.equal(after[name], short.weights[name]) for name in after)

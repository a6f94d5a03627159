import math

import pytest
import torch

from fedactive.query.strategies.entropy import Entropy


def test_the_most_uncertain_first_by_the_chosen_model(make_pool):
    sure, unsure, between = [9.0, 0.0], [0.0, 0.0], [1.0, 0.0]
    pool = make_pool(
        3,
        2,
        global_logits=torch.tensor([sure, unsure, between]),
        local_logits=torch.tensor([unsure, sure, between]),
    )
    assert Entropy("global").select(pool, 2, torch.Generator()).indices.tolist() == [1, 2]
    assert Entropy("local").select(pool, 2, torch.Generator()).indices.tolist() == [0, 2]
    assert Entropy("global").needs == {"global"}


def test_scores_are_entropies_in_nats(make_pool):
    pool = make_pool(2, 4, global_logits=torch.tensor([[0.0] * 4, [50.0, 0, 0, 0]]))
    assert Entropy("global").select(pool, 2, torch.Generator()).scores.tolist() == pytest.approx(
        [math.log(4), 0]
    )

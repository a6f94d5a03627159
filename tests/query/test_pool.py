"""The quantities that strategies read off a model's outputs, against autograd and their definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedactive.query import Outputs, Pool
from fedactive.query.contract import make_pool


def test_the_hallucinated_gradient_is_the_embedding_times_one_minus_p():
    """Eq. 7 of LoGo, by hand, with p far from ½: p in place of 1 - p is another number."""
    logits = torch.tensor([[0.9, 0.1], [0.25, 0.75]]).log()
    outputs = Outputs(logits, torch.tensor([[2.0, 4.0], [2.0, 4.0]]))
    expected = torch.tensor([[0.2, 0.4], [0.5, 1.0]])
    assert torch.allclose(outputs.hallucinated_gradient, expected)


@settings(max_examples=25, deadline=None)
@given(classes=st.integers(2, 5), seed=st.integers(0, 1000))
def test_gradients_are_those_of_the_last_layer_with_the_predicted_label(classes, seed):
    rng = torch.Generator().manual_seed(seed)
    z, W = torch.randn(7, 3, generator=rng), torch.randn(classes, 3, generator=rng, requires_grad=True)
    logits = z @ W.T
    outputs = Outputs(logits.detach(), z)
    for n, y in enumerate(logits.argmax(1).tolist()):
        loss = torch.nn.functional.cross_entropy(logits[n : n + 1], torch.tensor([y]))
        (gradient,) = torch.autograd.grad(loss, W, retain_graph=True)
        assert torch.allclose(torch.outer(outputs.residual[n], z[n]), -gradient, atol=1e-5)
        assert torch.allclose(outputs.hallucinated_gradient[n], -gradient[y], atol=1e-5)


def test_probabilities_and_entropy_are_of_each_sample():
    outputs = Outputs(torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).log(), torch.zeros(2, 4))
    assert outputs.probabilities.tolist() == [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    assert outputs.entropy.tolist() == pytest.approx([0.6931472, 0.0])  # 0 ln 0 is 0


def test_a_pool_is_as_long_as_what_is_unlabelled():
    assert len(make_pool(11, 3, labelled=4)) == 11


def test_a_pool_that_was_made_without_inputs_says_so():
    bare = Pool(1, 2, torch.zeros(0, dtype=torch.long), *[lambda model: None] * 3)
    for ask in (lambda: bare.inputs(torch.tensor([0])), lambda: bare.infer("global", torch.zeros(1))):
        with pytest.raises(LookupError, match="made without inputs"):
            ask()
    assert list(bare.each("committee")) == []


def test_a_pool_that_knows_of_no_others_is_a_lone_clients(make_pool):
    pool = make_pool(3, 2)
    assert (pool.client, pool.clients) == (0, 1)

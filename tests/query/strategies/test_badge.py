"""BADGE against explicit gradients: autograd for the embedding, the full matrix for the seeding."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedactive.query.contract import make_pool
from fedactive.query.strategies.badge import Badge


def explicit_gradients(z, head):
    """∂(-ℓ)/∂W for the predicted class, one sample at a time, by autograd."""
    rows = []
    for sample in z:
        head.zero_grad()
        logits = head(sample[None])
        (-nn.functional.cross_entropy(logits, logits.argmax(1))).backward()
        rows.append(head.weight.grad.flatten().clone())
    return torch.stack(rows)


def test_factors_are_the_gradient_of_the_last_layer():
    rng = torch.Generator().manual_seed(0)
    head = nn.utils.skip_init(nn.Linear, 5, 3)
    with torch.no_grad():
        head.weight.copy_(torch.randn(3, 5, generator=rng))
        head.bias.copy_(torch.randn(3, generator=rng))
    z = torch.randn(12, 5, generator=rng)
    pool = make_pool(12, 3, dimensions=5, embeddings=z, logits=head(z).detach())
    outputs = pool.unlabelled("global")
    built = torch.einsum("nc,nd->ncd", outputs.residual, outputs.embeddings).flatten(1)
    assert torch.allclose(built, explicit_gradients(z, head), atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 60), st.integers(1, 8), st.integers(0, 50))
def test_scores_are_the_squared_distances_to_what_was_chosen_before(n, classes, seed):
    pool = make_pool(n, classes, seed=seed)
    outputs = pool.unlabelled("global")
    g = torch.einsum("nc,nd->ncd", outputs.residual, outputs.embeddings).flatten(1).double()
    selection = Badge("global").select(pool, min(n, 10), torch.Generator().manual_seed(seed))
    chosen = selection.indices.tolist()
    assert torch.isclose(
        selection.scores[0].double(), (g**2).sum(1).max(), rtol=1e-4, atol=1e-5
    )  # the longest
    for step in range(1, len(chosen)):
        nearest = ((g[chosen[step]] - g[chosen[:step]]) ** 2).sum(1).min()
        assert torch.isclose(selection.scores[step].double(), nearest, rtol=1e-3, atol=1e-4)


def test_far_points_are_drawn_in_proportion_to_their_squared_distance():
    """After the longest (at 10), the points at 0 and 7 have D² = 100 and 9: about 91.7% of draws fall on 0."""
    z = torch.tensor([[10.0], [0.0], [7.0]])
    logits = torch.zeros(3, 2)  # q = (1/2, -1/2) for all, so that g is proportional to z
    second = [
        Badge("global")
        .select(make_pool(3, 2, embeddings=z, logits=logits), 2, torch.Generator().manual_seed(seed))
        .indices.tolist()
        for seed in range(600)
    ]
    assert all(first == 0 for first, _ in second)
    share = sum(chosen == 1 for _, chosen in second) / 600
    assert abs(share - 100 / 109) < 0.04

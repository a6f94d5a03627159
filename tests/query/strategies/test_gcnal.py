import pytest
import torch

from fedactive.query import Outputs, Pool
from fedactive.query.strategies import gcnal as module
from fedactive.query.strategies.gcnal import GCNAL, Graph, glorot, train


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pool_of(unlabelled: torch.Tensor, labelled: torch.Tensor) -> Pool:
    def outputs(z):
        return lambda model: Outputs(z.new_zeros(len(z), 2), z)

    labels = torch.zeros(len(labelled), dtype=torch.long)
    return Pool(len(unlabelled), 2, labels, outputs(unlabelled), outputs(labelled), lambda model: None)


def features(count: int, dimensions: int = 6, seed: int = 0) -> torch.Tensor:
    """Like those of a network that ends in a ReLU; doubles, so that two orders of summation agree."""
    return torch.rand(count, dimensions, generator=rng(seed), dtype=torch.float64)


def choose(unlabelled, labelled, budget, seed=0):
    selection = GCNAL().select(pool_of(unlabelled, labelled), budget, rng(seed))
    chosen = selection.indices.tolist()
    assert len(chosen) == len(set(chosen)) == min(budget, len(unlabelled))
    assert all(0 <= i < len(unlabelled) for i in chosen)
    assert len(selection.scores) == len(chosen)
    assert torch.isfinite(selection.scores).all()
    return chosen


# --- against the formulas, written down as they stand


def dense_matrix(embeddings):
    x = embeddings / embeddings.norm(dim=1, keepdim=True)
    similarity = x @ x.T - torch.eye(len(x), dtype=x.dtype)
    return x, similarity @ torch.diag(1 / similarity.sum(0)) + torch.eye(len(x), dtype=x.dtype)


def dense_network(unlabelled, labelled, seed):
    """CoreGCN with the whole matrix A; weights and masks are drawn as the strategy draws them."""
    x, a = dense_matrix(torch.cat([unlabelled, labelled]))
    n, draws = len(unlabelled), rng(seed)
    w1, w2 = glorot(x.shape[1], 128, draws).double(), glorot(128, 1, draws).double()
    masks = rng(int(torch.randint(2**62, (1,), generator=draws)))
    b1, b2 = torch.zeros(128, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    parameters = [p.requires_grad_() for p in (w1, b1, w2, b2)]
    optimiser = torch.optim.Adam(parameters, lr=1e-3, weight_decay=5e-4)
    for _ in range(200):
        keep = (torch.rand(len(x), 128, generator=masks) >= 0.3).double() / 0.7
        s = torch.sigmoid(a @ (torch.relu(a @ x @ w1 + b1) * keep) @ w2 + b2)[:, 0]
        loss = -1.2 * (1 - s[:n]).log().mean()
        if len(labelled):
            loss = loss - s[n:].log().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        hidden = torch.relu(a @ x @ w1 + b1)
        return hidden, torch.sigmoid(a @ hidden @ w2 + b2)[:, 0]


def farthest_first(nodes, centres, budget):
    chosen = []
    for _ in range(budget):
        gaps = [min(float((x - c).norm()) for c in centres) for x in nodes]
        chosen.append(max((i for i in range(len(nodes)) if i not in chosen), key=gaps.__getitem__))
        centres = [*centres, nodes[chosen[-1]]]
    return chosen


@pytest.mark.parametrize("signed", [False, True])
def test_the_graph_is_the_dense_matrix(signed):
    embeddings = features(30) - (0.3 if signed else 0)
    x, a = dense_matrix(embeddings)
    values = features(30, 5, seed=1)
    torch.testing.assert_close(Graph(embeddings).smooth(values), a @ values)
    torch.testing.assert_close(Graph(embeddings).features, x)


@pytest.mark.parametrize("embeddings", [[[3.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]], [[1.0, 1e-9], [0.0, 1.0]]])
def test_a_sample_like_no_other_keeps_to_itself(embeddings):
    values = torch.tensor([[1.0], [2.0]])[: len(embeddings)]
    torch.testing.assert_close(Graph(torch.tensor(embeddings)).smooth(values), values)


def test_where_similarities_cancel_out_a_sample_does_not_spread():
    x = torch.tensor([[1.0, 0.0], [0.5, 0.75**0.5], [-0.5, 0.75**0.5]], dtype=torch.float64)
    similarity = x @ x.T - torch.eye(3, dtype=torch.float64)
    assert similarity.sum(0).tolist() == pytest.approx([0, 1, 0])
    values = torch.tensor([[1.0], [10.0], [100.0]], dtype=torch.float64)
    expected = values + 10 * similarity[:, 1:2]  # only the second has neighbours on balance
    torch.testing.assert_close(Graph(x).smooth(values), expected)


@pytest.mark.parametrize("labelled", [0, 1, 7])
def test_training_is_that_of_the_dense_network(labelled):
    unlabelled, known = features(25), features(labelled, seed=1)
    (nodes,) = train([torch.cat([unlabelled, known])], [25], [rng(3)])
    expected_hidden, expected_score = dense_network(unlabelled, known, seed=3)
    torch.testing.assert_close(nodes[:, -1], expected_score, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(nodes[:, :-1], expected_hidden, rtol=1e-6, atol=1e-6)
    assert not nodes.requires_grad


def test_clients_trained_together_learn_what_they_learn_alone():
    samples, sizes = [features(n, seed=n) for n in (31, 12, 20)], [25, 12, 5]
    together = train(samples, sizes, [rng(k) for k in range(3)])
    for k in range(3):
        (alone,) = train([samples[k]], [sizes[k]], [rng(k)])
        torch.testing.assert_close(together[k], alone, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_selection_is_that_of_the_dense_network(seed):
    unlabelled, known = features(25, seed=seed), features(6, seed=10 + seed)
    hidden, score = dense_network(unlabelled, known, seed)
    nodes = list(torch.cat([hidden, score[:, None]], 1))
    assert choose(unlabelled, known, 8, seed) == farthest_first(nodes[:25], nodes[25:], 8)


# --- behaviour


def test_what_is_far_from_the_labelled_looks_unlabelled_and_is_wanted():
    near, far = torch.tensor([1.0, 1, 0.1, 0.1]), torch.tensor([0.1, 0.1, 1, 1])
    noise = torch.rand(60, 4, generator=rng()) * 0.1
    unlabelled = torch.cat([near.expand(20, 4), far.expand(20, 4)]) + noise[:40]
    labelled = near + noise[40:]
    (nodes,) = train([torch.cat([unlabelled, labelled])], [40], [rng()])
    score = nodes[:, -1]
    assert score[40:].min() > score[20:40].max()
    assert choose(unlabelled, labelled, 1)[0] >= 20


@pytest.mark.parametrize("budget", [5, 20, 35, 60, 99])
def test_a_large_pool_is_sampled_and_the_budget_still_met(monkeypatch, budget):
    sizes = []

    class Counted(Graph):
        def __init__(self, embeddings):
            sizes.append(embeddings.shape[1])
            super().__init__(embeddings)

    monkeypatch.setattr(module, "POOL_LIMIT", 20)
    monkeypatch.setattr(module, "Graph", Counted)
    chosen = choose(features(60), features(4, seed=1), budget)
    assert sizes == [max(20, min(budget, 60)) + 4]
    assert chosen == choose(features(60), features(4, seed=1), budget)
    assert set(chosen) != set(choose(features(60), features(4, seed=1), budget, seed=1)) or budget >= 60


def test_a_pool_at_the_limit_is_not_sampled(monkeypatch):
    expected = choose(features(20), features(4, seed=1), 5)
    monkeypatch.setattr(module, "POOL_LIMIT", 20)
    assert choose(features(20), features(4, seed=1), 5) == expected


@pytest.mark.parametrize("labelled", [0, 1, 5])
@pytest.mark.parametrize(
    "unlabelled",
    [
        torch.ones(1, 3),
        torch.zeros(12, 3),
        torch.ones(12, 3),
        torch.eye(3),
        torch.randn(12, 3, generator=rng()),
        torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]] * 5),
    ],
    ids=["one", "zero", "constant", "orthogonal", "signed", "cancelling"],
)
def test_degenerate_pools(unlabelled, labelled):
    for known in (torch.ones(labelled, 3), torch.zeros(labelled, 3)):
        choose(unlabelled, known, 4)


def test_any_grad_mode_will_do():
    unlabelled, known = features(20).float(), features(5, seed=1).float()
    expected = choose(unlabelled, known, 6)
    with torch.inference_mode():
        inside, inside_known = unlabelled.clone(), known.clone()
        assert choose(inside, inside_known, 6) == expected
    assert choose(inside, inside_known, 6) == expected
    with torch.no_grad():
        assert choose(unlabelled, known, 6) == expected
    attached = unlabelled.clone().requires_grad_()
    assert choose(attached, known, 6) == expected
    assert attached.grad is None
    assert torch.equal(unlabelled, features(20).float())


def test_initial_weights_fill_the_range_of_glorot():
    weights = glorot(10, 20, rng())
    assert weights.shape == (10, 20)
    assert weights.abs().max() <= (6 / 30) ** 0.5
    assert weights.min() < -0.95 * (6 / 30) ** 0.5
    assert weights.max() > 0.95 * (6 / 30) ** 0.5


def test_the_model_is_the_selectors():
    assert GCNAL().needs == {"global"}
    assert GCNAL("local").needs == {"local"}

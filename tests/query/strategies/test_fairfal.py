"""FairFAL against its formulas: numbers by hand, quotas, and gradients that are really built."""

import pytest
import torch
from torch.nn import functional as F

from fedactive.query import make_strategy
from fedactive.query.contract import make_pool
from fedactive.query.strategies.fairfal import (
    apartness,
    balanced_mean,
    distances,
    farthest_first,
    pseudo_classes,
    quotas_of,
)


def oversampled_mean(probabilities, labels):
    """Each class as often as the largest, by repeating its samples: 60 is a multiple of all counts here."""
    parts = [probabilities[labels == c] for c in labels.unique()]
    return torch.cat([part.repeat(60 // len(part), 1) for part in parts]).mean(0)


def test_classes_are_oversampled_to_equal_size():
    p = torch.rand(10, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 0, 0, 0, 0, 2, 2, 2, 3, 3])
    torch.testing.assert_close(balanced_mean(p, labels), oversampled_mean(p, labels))


def labelled_pool(**changes):
    pool = make_pool(40, 3, labelled=6, **changes)
    pool.labels = torch.tensor([0, 0, 0, 2, 2, 2])
    return pool


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("labels", [[0, 0, 0, 2, 2, 2], [0, 2, 2, 2, 2, 2]])
def test_a_client_says_how_balanced_the_global_model_is_over_its_classes(labels, seed):
    pool, strategy = labelled_pool(seed=seed), make_strategy("fairfal", "both")
    pool.labels = torch.tensor(labels)
    mean = oversampled_mean(pool.labelled("global").probabilities, pool.labels)[[0, 2]]
    told = strategy.summarise(pool)
    assert told.tolist() == pytest.approx([float(mean.min() / mean.max())])
    assert len(told) == strategy.numbers
    assert strategy.summarise(make_pool(9, 3, labelled=0)) is None


def test_the_distance_from_the_others_is_a_mean_over_classes():
    pool = labelled_pool()
    g, own = (
        oversampled_mean(pool.labelled(m).probabilities, pool.labels).tolist() for m in ("global", "local")
    )
    expected = sum(abs(a - b) / (a + b) for a, b in zip(g, own, strict=True)) / 3
    assert apartness(pool) == pytest.approx(expected)
    assert apartness(make_pool(9, 3, labelled=0)) == 0


def test_pseudo_classes_are_those_of_the_nearest_prototype():
    pool = labelled_pool()
    known = F.normalize(pool.labelled("global").embeddings)
    prototypes = {c: known[pool.labels == c].mean(0) for c in (0, 2)}
    for z, found in zip(pool.unlabelled("global").embeddings, pseudo_classes(pool).tolist(), strict=True):
        assert found == max(prototypes, key=lambda c: float(F.cosine_similarity(z, prototypes[c], dim=0)))


@pytest.mark.parametrize(
    ("sizes", "count", "quotas"),
    [
        ([10, 10, 10], 9, [3, 3, 3]),
        ([5, 20, 10], 11, [3, 4, 4]),  # 3 each, and the remaining 2 to the two largest
        ([1, 20, 10], 12, [1, 6, 5]),  # 3 are missing in the first: in turn, from the largest
        ([0, 3, 30], 12, [0, 3, 9]),
        ([2, 2, 2], 6, [2, 2, 2]),
        ([7, 0, 0], 1, [1, 0, 0]),
    ],
)
def test_every_class_has_its_share(sizes, count, quotas):
    assert quotas_of(sizes, count) == quotas


def test_distances_are_those_of_gradients_that_are_built():
    rng = torch.Generator().manual_seed(0)
    one, other = ([0.1 * torch.randn(n, d, generator=rng) for d in (4, 3)] for n in (5, 7))
    built = [torch.einsum("nd,nc->ndc", *pair).flatten(1) for pair in (one, other)]
    torch.testing.assert_close(distances(one, other), torch.cdist(*built) ** 2, atol=1e-6, rtol=1e-4)


def naive(pool, count, gamma):
    """The five steps on gradients that are built, with lists of positions."""
    d = apartness(pool)
    unsure = "global" if 1 - (d + gamma) / 2 > 0.75 else "local"
    shown = "global" if gamma < 0.5 else "local"
    entropy, cluster = pool.unlabelled(unsure).entropy.tolist(), pseudo_classes(pool).tolist()
    h, p = pool.unlabelled("global").embeddings, pool.unlabelled(shown).probabilities
    h_known, p_known = pool.labelled("global").embeddings, pool.labelled(shown).probabilities
    members = [[i for i in range(len(pool)) if cluster[i] == c] for c in range(pool.classes)]

    def gradient(z, q, y):
        return torch.outer(F.one_hot(torch.tensor(y), pool.classes) - q, z)

    chosen = set()
    for c, quota in enumerate(quotas_of([len(own) for own in members], count)):
        candidates = sorted(members[c], key=lambda i: -entropy[i])[: 4 * quota]
        points = {i: gradient(h[i], p[i], c) for i in candidates}
        centres = [
            gradient(h_known[j], p_known[j], c) for j in (pool.labels == c).nonzero().flatten().tolist()
        ]
        own = []
        while len(own) < quota:
            left = [i for i in candidates if i not in own]
            if centres:
                best = max(left, key=lambda i: min(float((points[i] - x).norm()) for x in centres))
            else:
                best = left[0]
            own.append(best)
            centres.append(points[best])
        chosen |= set(own)
    return chosen


@pytest.mark.parametrize("gamma", [0.1, 0.45, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("as_on_a_gpu")
def test_it_chooses_what_the_formula_does(gamma, seed):
    pool = make_pool(70, 3, labelled=6, seed=seed, dimensions=5)
    pool.labels = torch.tensor([0, 0, 0, 2, 2, 2])
    pool.agreed = torch.tensor([gamma], dtype=torch.float64)
    chosen = make_strategy("fairfal", "both").select(pool, 13, torch.Generator())
    assert set(chosen.indices.tolist()) == naive(pool, 13, gamma)
    assert chosen.scores.tolist() == sorted(chosen.scores.tolist(), reverse=True)


def test_without_labels_it_begins_with_the_most_uncertain_of_each_predicted_class():
    pool = make_pool(60, 3, labelled=0)
    chosen = make_strategy("fairfal", "both").select(pool, 3, torch.Generator()).indices.tolist()
    entropy, predicted = pool.unlabelled("local").entropy, pool.unlabelled("global").logits.argmax(1)
    for c in range(3):
        own = (predicted == c).nonzero().flatten()
        assert own[entropy[own].argmax()].item() in chosen


def test_an_unbalanced_federation_and_a_typical_client_ask_the_global_model(monkeypatch):
    """1 - ½(d + γ) above 0.75 and not."""
    from fedactive.query.strategies import fairfal

    pool = labelled_pool()
    asked = []
    original = pool.unlabelled
    pool.unlabelled = lambda model: asked.append(model) or original(model)
    for apart, gamma, expected in ((0.1, 0.3, {"global"}), (0.25, 0.25, {"global", "local"})):
        monkeypatch.setattr(fairfal, "apartness", lambda pool, apart=apart: apart)
        pool.agreed = torch.tensor([gamma], dtype=torch.float64)
        asked.clear()
        make_strategy("fairfal", "both").select(pool, 5, torch.Generator())
        assert set(asked) == expected


def test_equal_samples_are_not_chosen_twice():
    (chosen,) = farthest_first([torch.zeros(3, 3)], [torch.full((3,), torch.inf)], [3])
    assert sorted(chosen.tolist()) == [0, 1, 2]

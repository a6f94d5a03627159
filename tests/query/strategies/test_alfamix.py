import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedactive.query import Outputs, Pool, make_strategy
from fedactive.query.strategies.alfamix import (
    AlfaMix,
    class_means,
    ease_of_change,
    squared_distance_to_mean,
    steepest_direction,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def pool_of(unlabelled, labelled, labels, **heads) -> Pool:
    """The same embeddings for all models, but each its own head."""

    def outputs(z):
        return lambda model: Outputs(z.new_zeros(len(z), 2), z)

    classes = len(next(iter(heads.values()))[1])
    return Pool(len(unlabelled), classes, labels, outputs(unlabelled), outputs(labelled), heads.__getitem__)


def loss(z, weight, bias, predicted):
    return torch.nn.functional.cross_entropy((weight @ z + bias)[None], predicted[None])


def gradient(z, weight, bias):
    """∇_z CE(head(z), ŷ) by autograd."""
    z = z.clone().requires_grad_()
    loss(z, weight, bias, (weight @ z + bias).argmax()).backward()
    return z.grad


# --- by hand: class 0 for a positive first coordinate, class 1 for a negative one, √d = 2

HEAD = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]), torch.zeros(2)
LABELLED = torch.tensor([[3.0, 0, 0, 0], [-4.0, 0, 0, 0], [-6.0, 0, 0, 0]])  # class means 3 and -5
LABELS = torch.tensor([0, 1, 1])


def on_a_line(*places: float) -> Pool:
    z = torch.tensor([[x, 0.0, 0, 0] for x in places])
    return pool_of(z, LABELLED, LABELS, **{"global": HEAD})


def test_worked_example():
    """From x > 0 the farthest anchor is x + 5 away: the class changes if cap/2·(x + 5) > x."""
    pool = on_a_line(6, 4.5, 3, 2, 1, 0.5)  # bounds of x: 0.56, 1.25, 2.14, 3.33 and 5 for the five caps
    all_of_them = AlfaMix().select(pool, 6, rng())
    assert all_of_them.indices.tolist() == [5, 4, 3, 2, 1, 0]  # the last one as a random fill
    assert all_of_them.scores.tolist() == pytest.approx([1 / 0.2, 1 / 0.4, 1 / 0.6, 1 / 0.8, 1, 0])
    for budget, candidates in [
        (1, [5]),
        (2, [5, 4]),
        (4, [5, 4, 3, 2]),
    ]:  # the cap grows no more than it must
        selection = AlfaMix().select(pool, budget, rng())
        assert selection.indices.tolist() == candidates
        assert selection.diagnostics == {"candidates": budget}


def test_of_many_candidates_the_middle_of_each_cluster():
    z = torch.tensor([[0.1, 5, 0.5 * k, 0] for k in range(3)] + [[0.1, 0, 0.5 * k, 5] for k in range(3)])
    z *= torch.tensor([1.0, 4, 1, 1, 4, 1])[:, None]  # lengths do not matter
    selection = AlfaMix().select(pool_of(z, LABELLED, LABELS, **{"global": HEAD}), 2, rng())
    assert sorted(selection.indices.tolist()) == [1, 4]
    assert selection.diagnostics == {"candidates": 6}


def test_duplicates_leave_clusters_empty_and_further_candidates_fill():
    pool = on_a_line(9, 0.1, 0.1, 0.1, 0.1, 0.1, 9, 9)
    selection = AlfaMix().select(pool, 4, rng())
    assert set(selection.indices.tolist()) < {1, 2, 3, 4, 5}
    assert len(set(selection.indices.tolist())) == 4


def test_fills_at_random_without_replacement():
    pool = on_a_line(0.5, *[9.0] * 30)
    fills = set()
    for seed in range(5):
        chosen = AlfaMix().select(pool, 10, rng(seed)).indices.tolist()
        assert chosen[0] == 0
        assert len(set(chosen)) == 10
        fills.add(tuple(chosen[1:]))
    assert len(fills) == 5


@pytest.mark.parametrize("case", ["no labels", "no gradient", "one class"])
def test_where_nothing_can_change_the_choice_is_random(case):
    z, labelled, labels, (weight, bias) = randn(20, 4), LABELLED.double(), LABELS, HEAD
    match case:
        case "no labels":
            labelled, labels = labelled[:0], labels[:0]
        case "no gradient":
            weight = torch.zeros(2, 4)
        case "one class":
            weight, bias, labels = weight[:1], bias[:1], torch.zeros(3, dtype=torch.long)
    pool = pool_of(z, labelled, labels, **{"global": (weight, bias)})
    chosen = [AlfaMix().select(pool, 5, rng(seed)) for seed in range(4)]
    assert all(selection.scores.tolist() == [0] * 5 for selection in chosen)
    assert len({tuple(selection.indices.tolist()) for selection in chosen}) == 4


def test_a_class_without_labels_has_the_overall_mean():
    assert class_means(LABELLED, LABELS, 3)[:, 0].tolist() == pytest.approx([3, -5, -7 / 3])


def test_points_are_compared_with_the_mean_of_their_own_cluster():
    points, cluster = torch.tensor([[1.0, 0], [3, 4], [5, 5], [2, 2]]), torch.tensor([0, 0, 3, 0])
    # The mean of the first cluster is (2, 2); the third point is alone; two clusters are empty.
    assert squared_distance_to_mean(points, cluster, 4).tolist() == [5, 5, 0, 0]


# --- the formulas


def steepest(logits, weight):
    return steepest_direction(logits, logits.argmax(1), weight)


def test_steepest_is_the_direction_of_the_gradient():
    z, weight, bias = randn(10, 6), randn(4, 6, seed=1), randn(4, seed=2)
    expected = torch.stack([gradient(x, weight, bias) for x in z])
    torch.testing.assert_close(steepest(z @ weight.T + bias, weight), torch.nn.functional.normalize(expected))


def test_a_certain_prediction_still_has_a_direction():
    logits, weight = torch.tensor([[60.0, 1, 0]]), torch.eye(3)  # p is exactly 1 in single precision
    a, b = math.e / (1 + math.e), 1 / (1 + math.e)
    norm = math.sqrt(1 + a * a + b * b)
    assert steepest(logits, weight)[0].tolist() == pytest.approx([-1 / norm, a / norm, b / norm])


def test_the_mix_is_that_of_the_element_wise_alpha():
    weight, bias, anchor = randn(3, 5, seed=1), randn(3, seed=2), randn(5, seed=3)
    for z in randn(10, 5):
        g, epsilon = gradient(z, weight, bias), 0.4 / math.sqrt(5)
        alpha = epsilon * (anchor - z).norm() * g / (g.norm() * (anchor - z))
        direction = steepest((weight @ z + bias)[None], weight)[0]
        mixed = z + epsilon * (anchor - z).norm() * direction
        torch.testing.assert_close(mixed, z + alpha * (anchor - z))


def test_no_other_mix_of_that_length_raises_the_loss_more():
    weight, bias, step = randn(4, 6, seed=1), randn(4, seed=2), 1e-5
    others = torch.nn.functional.normalize(randn(200, 6, seed=3))
    for z in randn(5, 6):
        predicted = (weight @ z + bias).argmax()
        here = loss(z, weight, bias, predicted)

        def slope(direction, z=z, here=here, predicted=predicted):
            return float((loss(z + step * direction, weight, bias, predicted) - here) / step)

        best = slope(steepest((weight @ z + bias)[None], weight)[0])
        assert best == pytest.approx(float(gradient(z, weight, bias).norm()), rel=1e-3)
        assert best > max(slope(direction) for direction in others)


def naive_ease(unlabelled, labelled, labels, weight, bias, wanted):
    """One sample, one anchor and one cap after another, with the element-wise α."""
    anchors = [
        labelled[labels == c].mean(0) if (labels == c).any() else labelled.mean(0) for c in range(len(bias))
    ]
    gradients = [gradient(z, weight, bias) for z in unlabelled]
    ease = [0.0] * len(unlabelled)
    for cap in (0.2, 0.4, 0.6, 0.8, 1.0):
        epsilon = cap / math.sqrt(unlabelled.shape[1])
        for i, (z, g) in enumerate(zip(unlabelled, gradients, strict=True)):
            for anchor in anchors:
                apart = anchor - z
                alpha = epsilon * apart.norm() * g / (g.norm() * apart)
                mixed = z + torch.where(apart == 0, 0.0, alpha * apart)  # where they are equal nothing mixes
                if (weight @ mixed + bias).argmax() != (weight @ z + bias).argmax() and ease[i] == 0:
                    ease[i] = 1 / cap
        if sum(e > 0 for e in ease) >= wanted:
            break
    return ease


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 12),
    classes=st.integers(2, 5),
    dimensions=st.integers(1, 9),
    labelled=st.integers(1, 8),
    wanted=st.integers(1, 12),
    scale=st.sampled_from([0.1, 1.0, 3.0]),
    seed=st.integers(0, 1000),
    positive=st.booleans(),
)
def test_candidates_are_those_of_the_naive_loops(
    n, classes, dimensions, labelled, wanted, scale, seed, positive
):
    z, known = randn(n, dimensions, seed=seed), randn(labelled, dimensions, seed=seed + 1)
    if positive:  # as after a ReLU: sample and anchor are often both 0 somewhere
        z, known = z.clamp_min(0), known.clamp_min(0)
    weight, bias = randn(classes, dimensions, seed=seed + 2) * scale, randn(classes, seed=seed + 3)
    labels = torch.randint(classes, (labelled,), generator=rng(seed))
    logits = z @ weight.T + bias
    ease = ease_of_change(z, class_means(known, labels, classes), weight, logits, logits.argmax(1), wanted)
    assert ease.tolist() == pytest.approx(naive_ease(z, known, labels, weight, bias, wanted))


# --- whose head


def test_the_head_is_the_selectors_own_or_always_the_global_one():
    z, labels = randn(40, 6), torch.arange(4).repeat(3)
    known = randn(12, 6, seed=1)
    one, other = ((randn(4, 6, seed=s), randn(4, seed=s + 1)) for s in (2, 4))

    def choice(strategy, **heads):
        return strategy.select(pool_of(z, known, labels, **heads), 8, rng()).indices.tolist()

    own, always_global = AlfaMix("local"), make_strategy("alfamix", "local", "head=global")
    assert choice(own, **{"local": one, "global": other}) == choice(own, local=one)
    assert choice(always_global, **{"local": one, "global": other}) == choice(own, local=other)
    assert choice(own, local=one) != choice(own, local=other)
    assert own.needs == {"local"}
    assert always_global.needs == {"global", "local"}
    assert AlfaMix("global", head="global").needs == AlfaMix().needs == {"global"}
    assert AlfaMix("global", head="global") == AlfaMix("global")  # the same strategy by two names


def naive_released(local_z, local_known, labels, local_head, global_head, wanted):
    """Mix features of the local-only model, classify the mix with the global head, and ask whether that is another
    class than the local-only model itself predicts for the sample: one sample, anchor and cap after another."""
    weight, bias = global_head
    own = [(local_head[0] @ z + local_head[1]).argmax() for z in local_z]
    anchors = [
        local_known[labels == c].mean(0) if (labels == c).any() else local_known.mean(0)
        for c in range(len(bias))
    ]
    ease = [0.0] * len(local_z)
    for cap in (0.2, 0.4, 0.6, 0.8, 1.0):
        for i, (z, predicted) in enumerate(zip(local_z, own, strict=True)):
            at = z.clone().requires_grad_()
            loss(at, weight, bias, predicted).backward()
            for anchor in anchors:
                epsilon = cap / math.sqrt(len(z))
                alpha = epsilon * (anchor - z).norm() * at.grad / (at.grad.norm() * (anchor - z))
                mixed = z + alpha * (anchor - z)
                if (weight @ mixed + bias).argmax() != predicted and ease[i] == 0:
                    ease[i] = 1 / cap
        if sum(e > 0 for e in ease) >= wanted:
            break
    return ease


@pytest.mark.parametrize("seed", range(8))
def test_released_changes_the_local_models_own_prediction_by_the_global_head(seed):
    z, known, labels = randn(30, 6, seed=seed), randn(12, 6, seed=seed + 50), torch.arange(4).repeat(3)
    # The global head is near the local one, so that some predictions differ before any mixing and most do not.
    local = randn(4, 6, seed=seed + 2), randn(4, seed=seed + 3)
    shared = local[0] + 0.3 * randn(4, 6, seed=seed + 4), local[1]
    outputs = {
        "local": Outputs(z @ local[0].T + local[1], z),
        "global": Outputs(z @ shared[0].T + shared[1], z),
    }
    pool = Pool(
        30,
        4,
        labels,
        outputs.__getitem__,
        {"local": Outputs(known @ local[0].T, known)}.__getitem__,
        {"local": local, "global": shared}.__getitem__,
    )
    released = make_strategy("alfamix", "local", "head=released")
    for wanted in (3, 15, 30):
        naive = naive_released(z, known, labels, local, shared, wanted)
        assert released.ease(pool, wanted).tolist() == pytest.approx(naive)
    differing = outputs["local"].logits.argmax(1) != outputs["global"].logits.argmax(1)
    assert differing.any()
    assert (
        released.ease(pool, 30)[differing] == 5
    ).all()  # the smallest cap is enough: nothing need be mixed


def test_released_needs_both_models_and_is_the_plain_strategy_by_the_global_one():
    assert AlfaMix("local", head="released").needs == {"global", "local"}
    assert AlfaMix("global", head="released") == AlfaMix("global")


def test_outputs_may_come_from_inference_mode():
    with torch.inference_mode():
        z, known, weight = randn(40, 4), LABELLED.double().clone(), HEAD[0].double().clone()
    before = z.clone()
    pool = pool_of(z, known, LABELS, **{"global": (weight, HEAD[1])})
    assert len(set(AlfaMix().select(pool, 7, rng()).indices.tolist())) == 7
    assert torch.equal(z, before)

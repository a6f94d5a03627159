import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from fedactive.paper import paper_table
from fedactive.query import kernels
from fedactive.query.kernels import (
    best_of_each,
    draw,
    gradient_seeding,
    k_centre,
    kmeans,
    kmeans_plus_plus,
    sketch,
    squared_distances,
    top,
    update_centres,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inertia(points, cluster) -> float:
    return sum(
        float(((points[cluster == c] - points[cluster == c].mean(0)) ** 2).sum()) for c in cluster.unique()
    )


def wide_points(n: int, d: int, noise: float = 0.3) -> torch.Tensor:
    """Features as of a pretrained model: they vary in 20 directions, and a little in all."""
    few = torch.randn(n, 20, generator=rng(n)) @ torch.randn(20, d, generator=rng(d)) / d**0.5
    return few + noise * torch.randn(n, d, generator=rng(n + d)) / d**0.5


@st.composite
def grids(draw, most: int = 60):
    """Points with whole coordinates: duplicates are likely, and distances exact."""
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 4))
    width = draw(st.sampled_from([1, 3, 20]))
    seed = draw(st.integers(0, 1000))
    return torch.randint(-width, width + 1, (n, d), generator=rng(seed)).float()


examples = settings(max_examples=60, deadline=None)


def test_top_orders_by_score_and_breaks_ties_at_random():
    assert top(torch.tensor([1.0, 3, 2]), 2, rng()).tolist() == [1, 2]
    firsts = {top(torch.zeros(4), 1, rng(seed)).item() for seed in range(30)}
    assert firsts == {0, 1, 2, 3}


def test_the_best_of_each_cluster_come_before_the_second_best_of_any():
    cluster, score = torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([5.0, 4, 3, 2, 1, 0])
    assert best_of_each(cluster, score, 5, rng()).tolist() == [0, 2, 5, 1, 3]
    many = torch.rand(60, generator=rng())
    for one_or_all in (torch.zeros(60, dtype=torch.long), torch.arange(60)):
        assert torch.equal(best_of_each(one_or_all, many, 60, rng()), many.argsort(descending=True))
    assert {best_of_each(cluster, 0 * score, 3, rng(seed))[2].item() for seed in range(40)} == set(range(6))


def test_distances():
    x, c = torch.randn(20, 5, generator=rng(1)), torch.randn(6, 5, generator=rng(2))
    assert torch.allclose(squared_distances(x, c), torch.cdist(x, c) ** 2, atol=1e-4)


def test_draws_follow_the_weights_row_by_row():
    weights = torch.tensor([[0.0, 1, 0, 3], [2, 0, 0, 0]])
    drawn = draw(weights, torch.rand(2, 4000, generator=rng()))
    assert drawn.shape == (2, 4000)
    assert set(drawn[0].tolist()) == {1, 3}
    assert (drawn[0] == 3).float().mean() == pytest.approx(0.75, abs=0.03)
    assert (drawn[1] == 0).all()
    assert draw(torch.zeros(3), torch.tensor([0.5])).tolist() == [2]  # nothing to go by: still a position


class TestKMeans:
    def test_separate_groups_are_found(self):
        centres = torch.tensor([[0.0, 0], [20, 0], [0, 20]])
        points = (centres.repeat_interleave(30, 0) + torch.randn(90, 2, generator=rng())).float()
        cluster = kmeans(points, 3, rng())
        assert all(len(cluster[i * 30 : (i + 1) * 30].unique()) == 1 for i in range(3))
        assert len(cluster.unique()) == 3

    @pytest.mark.parametrize("k", [2, 10, 40])
    def test_as_good_as_scikit_learn(self, k):
        points = torch.randn(400, 6, generator=rng(3))
        theirs = KMeans(k, n_init=10, random_state=0).fit(points.numpy()).inertia_
        assert inertia(points, kmeans(points, k, rng())) < 1.02 * theirs

    def test_as_good_as_scikit_learn_on_gradients(self):
        # Few long vectors, many short ones, nothing negative: plain k-means++ starts end 10% worse here.
        z = torch.relu(torch.randn(900, 40, generator=rng(4)))
        points = z * torch.rand(900, 1, generator=rng(5)) ** 8
        mine = [inertia(points, kmeans(points, 60, rng(seed))) for seed in range(3)]
        theirs = [KMeans(60, n_init=10, random_state=seed).fit(points.numpy()).inertia_ for seed in range(3)]
        assert sum(mine) < 1.01 * sum(theirs)

    @pytest.mark.parametrize("seed", range(5))
    def test_the_best_of_plain_lloyds_from_the_same_starts(self, seed):
        points, k = torch.randn(60, 2, generator=rng(seed)).double(), 6
        ends = []
        for centres in kmeans_plus_plus(points - points.mean(0), k, rng(seed), restarts=10):
            for _ in range(100):
                cluster = torch.cdist(points - points.mean(0), centres).argmin(1)
                centres = torch.stack([(points - points.mean(0))[cluster == c].mean(0) for c in range(k)])
            ends.append(inertia(points, cluster))
        assert inertia(points, kmeans(points, k, rng(seed))) == pytest.approx(min(ends), rel=1e-3)
        assert max(ends) > 1.01 * min(ends)  # or else any of them would do

    @pytest.mark.parametrize("scale", [2.0**-12, 2.0**12])
    def test_the_unit_of_length_does_not_matter(self, scale):
        points = torch.randn(80, 3, generator=rng())
        assert torch.equal(kmeans(points, 7, rng()), kmeans(points * scale, 7, rng()))

    def test_far_from_the_origin(self):
        points = torch.tensor([[0.0], [1.0], [10.0], [11.0]]) + 1e5
        a, b, c, d = kmeans(points, 2, rng()).tolist()
        assert a == b != c == d

    @examples
    @given(points=grids(), share=st.floats(0, 1), seed=st.integers(0, 5))
    def test_a_local_optimum_without_empty_clusters(self, points, share, seed):
        k = 1 + round(share * (len(points) - 1))
        cluster = kmeans(points, k, rng(seed), restarts=2)
        assert cluster.shape == (len(points),)
        assert ((cluster >= 0) & (cluster < k)).all()
        different = len(points.unique(dim=0))
        assert len(cluster.unique()) == min(k, different)
        if k >= different:
            assert inertia(points, cluster) == pytest.approx(0, abs=1e-3)
        means = torch.stack([points[cluster == c].mean(0) for c in cluster.unique()])
        own = torch.empty(len(points))
        for c in cluster.unique():
            own[cluster == c] = ((points[cluster == c] - points[cluster == c].mean(0)) ** 2).sum(1)
        slack = 0.1 + 0.01 * float(points.var(0, correction=0).sum())  # the last step may be a small one
        assert (own <= squared_distances(points, means).amin(1) + slack).all()

    @examples
    @given(points=grids(30), seed=st.integers(0, 5))
    def test_same_seed_same_clusters(self, points, seed):
        k = 1 + len(points) // 3
        before = points.clone()
        assert torch.equal(kmeans(points, k, rng(seed)), kmeans(points, k, rng(seed)))
        assert torch.equal(points, before)

    def test_duplicates_and_extremes(self):
        points = torch.tensor([[0.0], [0.0], [0.0], [5.0], [9.0]])
        assert len(kmeans(points, 3, rng()).unique()) == 3
        assert len(kmeans(points, 5, rng()).unique()) == 3  # there are only three different points
        assert kmeans(points, 1, rng()).tolist() == [0] * 5
        assert kmeans(torch.ones(4, 2), 4, rng()).shape == (4,)
        assert sorted(kmeans(torch.randn(9, 3, generator=rng()), 9, rng()).tolist()) == list(range(9))

    @pytest.mark.parametrize("k", [2, 10, 40])
    def test_wide_points_as_good_as_scikit_learn(self, k):
        points = wide_points(300, 1100)
        theirs = KMeans(k, n_init=10, random_state=0).fit(points.numpy()).inertia_
        assert inertia(points, kmeans(points, k, rng())) < 1.02 * theirs

    @pytest.mark.parametrize(
        ("d", "seen"), [(kernels.WIDE, kernels.WIDE), (kernels.WIDE + 1, kernels.SKETCH)]
    )
    def test_only_wide_points_are_sketched(self, monkeypatch, d, seen):
        widths = []
        original = kernels.kmeans_plus_plus

        def spy(points, *others):
            widths.append(points.shape[1])
            return original(points, *others)

        monkeypatch.setattr(kernels, "kmeans_plus_plus", spy)
        kmeans(wide_points(30, d), 3, rng())
        assert widths == [seen]

    def test_a_sketch_keeps_the_directions_that_matter(self):
        points = wide_points(300, 1100, noise=0.02)
        points -= points.mean(0)
        small = sketch(points, rng())
        assert small.shape == (300, kernels.SKETCH)
        whole, kept = (squared_distances(x, x) for x in (points, small))
        assert torch.allclose(whole, kept, rtol=0.05, atol=0.05 * float(whole.mean()))
        exact = torch.linalg.svdvals(points)[:20]
        assert torch.allclose(torch.linalg.svdvals(small)[:20], exact, rtol=0.01)

    def test_wide_duplicates_and_extremes(self):
        few = torch.zeros(9, 1100)
        few[3:6, 0], few[6:, 1] = 1.0, 2.0
        assert len(kmeans(few, 3, rng()).unique()) == 3
        assert len(kmeans(few, 5, rng()).unique()) == 3
        assert kmeans(few[:1], 1, rng()).tolist() == [0]
        assert kmeans(torch.ones(4, 1100), 4, rng()).shape == (4,)

    def test_empty_clusters_go_to_the_farthest_points(self):
        points = torch.tensor([[0.0], [1.0], [10.0], [4.0]])
        centres, cluster = torch.tensor([[7.0], [0.0], [7.0]]), torch.tensor([1, 1, 1, 1])
        moved = update_centres(points, centres, cluster, squared_distances(points, centres)[:, 1])
        assert moved.tolist() == [[10.0], [3.75], [4.0]]

    def test_means(self):
        points, cluster = torch.randn(200, 3, generator=rng()), torch.randint(7, (200,), generator=rng())
        moved = update_centres(points, torch.zeros(7, 3), cluster, torch.zeros(200))
        assert torch.allclose(moved, torch.stack([points[cluster == c].mean(0) for c in range(7)]), atol=1e-6)

    def test_starts_prefer_far_points(self):
        points = torch.cat([torch.zeros(99, 1), torch.full((1, 1), 100.0)])
        assert all(100.0 in kmeans_plus_plus(points, 2, rng(seed))[0] for seed in range(10))

    @examples
    @given(points=grids(), seed=st.integers(0, 5))
    def test_starts_are_different_points_while_there_are_any(self, points, seed):
        different = len(points.unique(dim=0))
        k = 1 + different // 2
        (centres,) = kmeans_plus_plus(points, k, rng(seed))
        assert len(centres.unique(dim=0)) == k
        assert (squared_distances(centres, points).amin(1) == 0).all()


class TestGradientSeeding:
    @settings(max_examples=40, deadline=None)
    @given(
        terms=st.integers(1, 2),
        n=st.integers(1, 60),
        classes=st.integers(1, 5),
        share=st.floats(0, 1),
        seed=st.integers(0, 50),
    )
    def test_distances_are_those_of_the_explicit_gradients(self, terms, n, classes, share, seed):
        z = torch.randn(terms, n, 6, generator=rng(seed)).relu().double()
        q = torch.randn(terms, n, classes, generator=rng(seed + 1)).double()
        count = round(share * n)
        chosen, scores = gradient_seeding(z, q, count, rng(seed))
        assert len(set(chosen.tolist())) == count
        g = torch.einsum("tnd,tnc->ndc", z, q).flatten(1)
        for step, (position, score) in enumerate(zip(chosen, scores, strict=True)):
            if step == 0:
                expected = (g**2).sum(1).max()
                assert torch.isclose((g[position] ** 2).sum(), expected)
            else:
                expected = ((g[position] - g[chosen[:step]]) ** 2).sum(1).min()
            assert torch.isclose(score.double(), expected, rtol=1e-4, atol=1e-5)

    def test_draws_by_squared_distance(self):
        # From the longest, at 3, the others are at 9 (once) and 1 (four times).
        z = torch.tensor([[[0.0], [2.0], [2.0], [2.0], [2.0], [3.0]]])
        second = [gradient_seeding(z, torch.ones(1, 6, 1), 2, rng(s))[0][1].item() for s in range(400)]
        assert second.count(0) / 400 == pytest.approx(9 / 13, abs=0.07)
        small = [gradient_seeding(z / 1024, torch.ones(1, 6, 1), 2, rng(s))[0][1].item() for s in range(400)]
        assert small == second  # the unit of length does not matter

    def test_of_equal_gradients_each_is_chosen_once(self):
        chosen, scores = gradient_seeding(torch.ones(1, 20, 3), torch.ones(1, 20, 2), 20, rng())
        assert (sorted(chosen.tolist()), scores.tolist()) == (list(range(20)), [6] + [0] * 19)


class TestKCentre:
    @staticmethod
    def brute_force(points, anchors, chosen):
        """D² of each chosen point when it was chosen, and the largest there was."""
        steps = []
        for step, position in enumerate(chosen):
            centres = torch.cat([anchors, points[chosen[:step]]])
            if len(centres):
                nearest = squared_distances(points.double(), centres.double()).amin(1)
                nearest[chosen[:step]] = 0
                steps.append((float(nearest[position]), float(nearest.max())))
        return steps

    @examples
    @given(points=grids(300), anchors=st.integers(0, 5), share=st.floats(0, 1), seed=st.integers(0, 50))
    def test_always_the_farthest(self, points, anchors, share, seed):
        anchors = torch.randint(-9, 9, (anchors, points.shape[1]), generator=rng(seed)).float()
        count = round(share * len(points))
        chosen, scores = k_centre(points, anchors, count, rng(seed))
        assert len(set(chosen.tolist())) == count
        steps = self.brute_force(points, anchors, chosen)
        assert all(own == largest for own, largest in steps)
        assert scores[count - len(steps) :].tolist() == [own for own, _ in steps]
        assert (scores[: count - len(steps)] == 0).all()  # a first point without any centre

    @pytest.mark.parametrize("dimensions", [1, 3, 50])
    def test_many_steps(self, dimensions):
        points = torch.randn(900, dimensions, generator=rng(1)).relu()
        chosen, scores = k_centre(points, points[:30], 300, rng())
        steps = torch.tensor(self.brute_force(points, points[:30], chosen))
        assert torch.allclose(steps[:, 0], steps[:, 1], rtol=1e-4, atol=1e-4)
        assert torch.allclose(scores, steps[:, 0], rtol=1e-4, atol=1e-4)

    def test_what_is_no_number_ends_too(self):
        chosen, _ = k_centre(torch.full((50, 2), torch.nan), torch.zeros(1, 2), 30, rng())
        assert len(set(chosen.tolist())) == 30


def test_the_papers_table():
    table = paper_table("query_cost_seconds")
    logo = table[(table.strategy == "logo") & (table.labelled_percent == "75->80")]
    assert len(table) == 33
    assert logo.seconds_per_client_rtx3090.item() == 56.81

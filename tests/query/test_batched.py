"""The batched kernels against those for one client, and against themselves in other company."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedactive.query import batched, batched_kmeans, kernels
from fedactive.query.contract import make_pool
from fedactive.query.strategies.logo import LoGo


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rngs(count: int, seed: int = 0) -> list[torch.Generator]:
    return [rng(seed + k) for k in range(count)]


def inertia(points, cluster) -> float:
    return sum(
        float(((points[cluster == c] - points[cluster == c].mean(0)) ** 2).sum()) for c in cluster.unique()
    )


@st.composite
def clients(draw, most: int = 60):
    """Points of one to five clients, with whole coordinates: duplicates are likely, and distances exact."""
    d, width = draw(st.integers(1, 4)), draw(st.sampled_from([1, 3, 20]))
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=5))
    seed = draw(st.integers(0, 1000))
    points = [
        torch.randint(-width, width + 1, (n, d), generator=rng(seed + k)).float() for k, n in enumerate(sizes)
    ]
    return points, [draw(st.integers(1, n)) for n in sizes]


examples = settings(max_examples=40, deadline=None)


class TestGradientSeeding:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("terms", [1, 2])
    def test_as_for_each_client_alone(self, terms, dtype):
        sizes, counts = [80, 33, 1, 50], [40, 33, 1, 7]
        z = [torch.randn(terms, n, 8, generator=rng(n)).relu().to(dtype) for n in sizes]
        q = [torch.randn(terms, n, 3, generator=rng(n + 1)).to(dtype) for n in sizes]
        together = batched.gradient_seeding(z, q, counts, rngs(4))
        for k, (chosen, scores) in enumerate(together):
            expected, distances = kernels.gradient_seeding(z[k], q[k], counts[k], rng(k))
            assert chosen.tolist() == expected.tolist()
            assert torch.allclose(scores, distances, rtol=1e-4, atol=1e-4)

    @examples
    @given(clients(), st.integers(0, 50))
    def test_duplicates(self, drawn, seed):
        points, counts = drawn
        z, q = [x[None] for x in points], [torch.ones(1, len(x), 1) for x in points]
        together = batched.gradient_seeding(z, q, counts, rngs(len(points), seed))
        for k, (chosen, scores) in enumerate(together):
            expected, distances = kernels.gradient_seeding(z[k], q[k], counts[k], rng(seed + k))
            assert chosen.tolist() == expected.tolist()
            assert scores.tolist() == distances.tolist()


class TestKCentre:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_as_for_each_client_alone(self, dtype):
        sizes, counts = [300, 33, 1, 50, 60], [100, 33, 1, 7, 30]
        points = [torch.randn(n, 8, generator=rng(n)).to(dtype) for n in sizes]
        anchors = [torch.randn(n, 8, generator=rng(90 + n)).to(dtype) for n in (1, 20, 3, 1500, 0)]
        together = batched.k_centre(points, anchors, counts, rngs(5))
        for k, (chosen, scores) in enumerate(together):
            expected, distances = kernels.k_centre(points[k], anchors[k], counts[k], rng(k))
            assert chosen.tolist() == expected.tolist()
            assert torch.allclose(scores, distances, rtol=1e-4, atol=1e-4)

    @examples
    @given(clients(), st.integers(0, 3), st.integers(0, 50))
    def test_duplicates_and_clients_without_labels(self, drawn, labelled, seed):
        """With ties another point may be chosen than by the kernel for one client: always one of the farthest."""
        points, counts = drawn
        anchors = [x[: labelled * (k % 2)] for k, x in enumerate(points)]
        together = batched.k_centre(points, anchors, counts, rngs(len(points), seed))
        for x, known, count, (chosen, scores) in zip(points, anchors, counts, together, strict=True):
            assert len(set(chosen.tolist())) == count
            for step in range(count):
                centres = torch.cat([known, x[chosen[:step]]])
                if len(centres) == 0:
                    assert scores[0] == 0
                    continue
                nearest = kernels.squared_distances(x, centres).amin(1)
                assert scores[step] == nearest[chosen[step]] == nearest.max()

    def test_ties_are_broken_by_each_clients_seed(self):
        alike, nothing = [torch.ones(30, 2)] * 2, [torch.ones(0, 2)] * 2
        firsts = [batched.k_centre(alike, nothing, [1, 1], rngs(2, seed)) for seed in range(0, 40, 2)]
        for client in range(2):
            assert len({int(chosen[client][0]) for chosen in firsts}) > 5

    def test_what_is_no_number_ends_too(self):
        ((chosen, _),) = batched.k_centre(
            [torch.full((50, 2), torch.nan)], [torch.zeros(1, 2)], [30], [rng()]
        )
        assert len(set(chosen.tolist())) == 30


class TestKMeans:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_as_good_as_for_each_client_alone(self, dtype):
        sizes, counts = [400, 150, 37, 1], [40, 60, 37, 1]
        points = [torch.randn(n, 6, generator=rng(n)).to(dtype) for n in sizes]
        together = batched_kmeans.kmeans(points, counts, rngs(4))
        for k, (x, cluster) in enumerate(zip(points, together, strict=True)):
            expected = kernels.kmeans(x, counts[k], rng(k))
            assert sorted(cluster.unique().tolist()) == list(range(counts[k]))
            assert inertia(x, cluster) <= 1.01 * inertia(x, expected) + 1e-6

    def test_wide_points_as_good_as_for_each_client_alone(self):
        sizes, counts = [200, 90, 7, 1], [20, 5, 7, 1]
        points = [torch.randn(n, 1100, generator=rng(n)) * torch.rand(1100, generator=rng(1)) for n in sizes]
        together = batched_kmeans.kmeans(points, counts, rngs(4), restarts=2)
        for k, (x, cluster) in enumerate(zip(points, together, strict=True)):
            expected = kernels.kmeans(x, counts[k], rng(k), restarts=2)
            assert sorted(cluster.unique().tolist()) == list(range(counts[k]))
            assert inertia(x, cluster) <= 1.01 * inertia(x, expected) + 1e-6

    def test_same_draws_same_starts(self):
        points = [torch.randn(n, 5, generator=rng(n)).double() for n in (70, 12)]
        x, real = batched.padded(points)
        starts = batched_kmeans.kmeans_plus_plus(x, real, [20, 3], rngs(2), restarts=4)
        assert torch.equal(starts[0], kernels.kmeans_plus_plus(points[0], 20, rng(0), 4))
        assert torch.equal(starts[1, :, :3], kernels.kmeans_plus_plus(points[1], 3, rng(1), 4))
        assert (starts[1, :, 3:] == 0).all()

    @examples
    @given(clients(), st.integers(0, 50))
    def test_same_draws_same_starts_among_duplicates(self, drawn, seed):
        points, counts = drawn
        x, real = batched.padded(points)
        starts = batched_kmeans.kmeans_plus_plus(x, real, counts, rngs(len(points), seed), restarts=3)
        for k, (own, count) in enumerate(zip(points, counts, strict=True)):
            assert torch.equal(starts[k, :, :count], kernels.kmeans_plus_plus(own, count, rng(seed + k), 3))

    @pytest.mark.parametrize("tolerance", [0.1, 1.0])
    def test_runs_that_have_converged_stand_still(self, tolerance):
        points = [torch.randn(n, 6, generator=rng(n)).double() for n in (300, 200, 40)]
        together = batched_kmeans.kmeans(points, [15, 30, 4], rngs(3), tolerance=tolerance)
        for k, count in enumerate([15, 30, 4]):
            assert torch.equal(together[k], kernels.kmeans(points[k], count, rng(k), tolerance=tolerance))

    def test_empty_clusters_go_to_the_farthest_points_but_not_to_padding(self):
        x, real = batched.padded([torch.tensor([[0.0], [1.0], [10.0], [4.0]]), torch.tensor([[5.0], [5.0]])])
        cluster = torch.tensor([[[1, 1, 1, 1]], [[0, 0, 3, 3]]])  # 3 is what padding gets
        distance = torch.tensor([[[0.0, 1.0, 100.0, 16.0]], [[0.0, 0.0, 0.0, 0.0]]])
        used = torch.tensor([[True, True, True], [True, True, False]])
        moved, empty = batched_kmeans.update_centres(x, real, cluster, distance, used)
        assert moved[:, 0, :, 0].tolist() == [[10.0, 3.75, 4.0], [5.0, 5.0, 0.0]]
        assert empty[:, 0].tolist() == [[True, False, True], [False, True, False]]

    @examples
    @given(clients(), st.integers(0, 5))
    def test_a_local_optimum_without_empty_clusters(self, drawn, seed):
        points, counts = drawn
        together = batched_kmeans.kmeans(points, counts, rngs(len(points), seed), restarts=2)
        for x, k, cluster in zip(points, counts, together, strict=True):
            assert cluster.shape == (len(x),)
            assert ((cluster >= 0) & (cluster < k)).all()
            different = len(x.unique(dim=0))
            assert len(cluster.unique()) == min(k, different)
            if k >= different:
                assert inertia(x, cluster) == pytest.approx(0, abs=1e-3)
            means = torch.stack([x[cluster == c].mean(0) for c in cluster.unique()])
            own = torch.empty(len(x))
            for c in cluster.unique():
                own[cluster == c] = ((x[cluster == c] - x[cluster == c].mean(0)) ** 2).sum(1)
            slack = 0.1 + 0.01 * float(x.var(0, correction=0).sum())  # the last step may be a small one
            assert (own <= kernels.squared_distances(x, means).amin(1) + slack).all()

    def test_far_from_the_origin(self):
        points = torch.tensor([[0.0], [1.0], [10.0], [11.0]]) + 1e5
        cluster, _ = batched_kmeans.kmeans([points, points[:1]], [2, 1], rngs(2))
        a, b, c, d = cluster.tolist()
        assert a == b != c == d

    def test_points_in_blocks_are_the_same_points(self, monkeypatch):
        points = [torch.randn(n, 4, generator=rng(n)) for n in (60, 45)]
        whole = batched_kmeans.kmeans(points, [8, 5], rngs(2))
        monkeypatch.setattr(batched_kmeans, "MOST_NUMBERS", 2 * 10 * 8 * 7)  # 7 points at a time
        for a, b in zip(whole, batched_kmeans.kmeans(points, [8, 5], rngs(2)), strict=True):
            assert torch.equal(a, b)

    @pytest.mark.usefixtures("as_on_a_gpu")
    @settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(0, 10_000))
    def test_every_query_of_logo_is_the_most_uncertain_of_its_own_cluster(self, seed):
        pools = [make_pool(n, 4, dimensions=5, seed=seed + n) for n in (80, 50, 12)]
        for pool, selection in zip(pools, LoGo().select_all(pools, 12, rngs(3, seed)), strict=True):
            cluster, entropy = selection.diagnostics["cluster"], pool.unlabelled("global").entropy
            assert sorted(cluster[selection.indices].tolist()) == list(range(12))
            for i in selection.indices.tolist():
                assert entropy[i] == entropy[cluster == cluster[i]].max()


def test_wide_points_of_clients_one_by_one():
    points = [torch.randn(n, kernels.WIDE + 1, generator=rng(n)) for n in (8, 5)]
    together = batched_kmeans.kmeans_of_all(points, [3, 2], rngs(2))
    for k, found in enumerate(together):
        assert found.tolist() == kernels.kmeans(points[k], 3 - k, rng(k)).tolist()


@pytest.mark.parametrize(("d", "sketched"), [(kernels.WIDE, 0), (kernels.WIDE + 1, 2)])
def test_only_wide_points_are_sketched(monkeypatch, d, sketched):
    seen = []

    def spy(points, rng):
        seen.append(len(points))
        return kernels.sketch(points, rng)

    monkeypatch.setattr(batched_kmeans, "sketch", spy)
    batched_kmeans.kmeans([torch.randn(n, d, generator=rng(n)) for n in (8, 5)], [3, 2], rngs(2))
    assert len(seen) == sketched


class TestGroups:
    @pytest.mark.parametrize("most", [0, 10, 25, 1000])
    def test_as_many_as_fit_and_all_in_order(self, monkeypatch, most):
        groups = []

        def double(values):
            groups.append([int(value) for value in values])
            return [2 * int(value) for value in values]

        monkeypatch.setattr(batched, "MOST_NUMBERS", most)
        monkeypatch.setattr(batched, "one_by_one", lambda tensors: False)
        values = [torch.tensor(value) for value in (3, 10, 7, 1, 2)]
        assert batched.in_groups(double, [int(value) for value in values], values) == [6, 20, 14, 2, 4]
        assert all(len(group) == 1 or len(group) * max(group) <= most for group in groups)
        assert len(groups) == {0: 5, 10: 3, 25: 2, 1000: 1}[most]

    def test_one_by_one_on_a_cpu(self):
        sizes = []
        values = [torch.tensor(value) for value in (3, 10, 7)]
        batched.in_groups(lambda group: sizes.append(len(group)) or group, [1, 1, 1], values)
        assert sizes == [1, 1, 1]


class TestForAllClients:
    """On a CPU one client after another; elsewhere in groups, by what each client needs to hold."""

    @staticmethod
    def calls():
        points = [torch.randn(n, 3, generator=rng(n)) for n in (9, 5)]
        anchors = [torch.randn(n, 3, generator=rng(n)) for n in (2, 4)]
        q = [torch.randn(1, len(x), 2, generator=rng(1)) for x in points]
        return {
            "k_centre": (batched.k_centre_of_all, (points, anchors)),
            "gradient_seeding": (batched.gradient_seeding_of_all, ([x[None] for x in points], q)),
            "kmeans": (batched_kmeans.kmeans_of_all, (points,)),
        }

    @pytest.mark.parametrize("name", ["k_centre", "gradient_seeding", "kmeans"])
    def test_one_after_another(self, name):
        of_all, arguments = self.calls()[name]
        expected = list(map(getattr(kernels, name), *arguments, [3, 2], rngs(2)))
        found = of_all(*arguments, [3, 2], rngs(2))
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(torch.stack(list(one)), torch.stack(list(other)))

    @pytest.mark.parametrize(
        ("name", "costs"),
        [
            ("k_centre", [2 * (27 + 6) + 2 * 1024 * 9, 2 * (15 + 12) + 2 * 1024 * 5]),
            ("gradient_seeding", [4 * (27 + 18), 4 * (15 + 10)]),
            # Ten runs: centres of k numbers each, four times, and distances of 3 or 2 trials, three times.
            ("kmeans", [10 * (4 * 3 * 3 + 3 * 3 * 9) + 27, 10 * (4 * 2 * 3 + 3 * 2 * 5) + 15]),
        ],
    )
    def test_in_groups_by_what_each_client_holds(self, as_on_a_gpu, monkeypatch, name, costs):
        module = batched_kmeans if name == "kmeans" else batched
        asked = []
        original = batched.in_groups
        monkeypatch.setattr(module, "in_groups", lambda *given: asked.append(given[:2]) or original(*given))
        of_all, arguments = self.calls()[name]
        assert len(of_all(*arguments, [3, 2], rngs(2))) == 2
        assert asked == [(getattr(module, name), costs)]

    def test_all_of_them_must_be_on_a_cpu(self):
        here, elsewhere = torch.zeros(1), torch.zeros(1, device="meta")
        assert batched.one_by_one([here, here])
        assert not batched.one_by_one([here, elsewhere])

    @pytest.mark.parametrize(
        ("most", "groups"), [(100, [[0, 2, 1]]), (10, [[0, 2], [1]]), (1, [[0], [2], [1]])]
    )
    def test_as_many_at_once_as_fit(self, as_on_a_gpu, monkeypatch, most, groups):
        monkeypatch.setattr(batched, "MOST_NUMBERS", most)
        asked = []
        found = batched.in_groups(lambda names: asked.append(names) or names, [5, 2, 4], [0, 1, 2])
        assert asked == groups  # the large ones together
        assert found == [0, 1, 2]


def test_nearest_centres_in_blocks_of_points(monkeypatch):
    """Every point's own centre and D², small ones too, however many points are compared at once."""
    x = torch.randn(2, 7, 3, generator=rng(1)) / 100
    centres, used = torch.randn(2, 4, 5, 3, generator=rng(2)) / 100, torch.ones(2, 5, dtype=torch.bool)
    real = torch.ones(2, 7, dtype=torch.bool)
    real[1, 4:] = False
    expected = ((x[:, None, :, None] - centres[:, :, None]) ** 2).sum(-1)
    for most in (1, 2 * 4 * 5 * 3, 2**28):
        monkeypatch.setattr(batched_kmeans, "MOST_NUMBERS", most)
        cluster, distance = batched_kmeans.nearest_centres(x, (x * x).sum(2), real, centres, used)
        assert torch.equal(cluster[0], expected[0].argmin(-1))
        assert torch.equal(cluster[1, :, :4], expected[1, :, :4].argmin(-1))
        assert (cluster[1, :, 4:] == 5).all()
        assert torch.allclose(distance[0], expected[0].amin(-1), atol=1e-7)
        assert (distance[1, :, 4:] == 0).all()

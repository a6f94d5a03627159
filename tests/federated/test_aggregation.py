"""How updates become one model, and how far a single bad one can move it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from flwr.server.strategy.aggregate import aggregate_median, aggregate_trimmed_avg
from hypothesis import given
from hypothesis import strategies as st

from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.federated import Server, Update, average, make_algorithm

PARAMETERS = ("w", "b")
ROBUST = ("median", "trimmed-mean", "clipped-mean")


def model(rng, scale=1.0):
    return {
        "w": scale * torch.randn(4, 3, generator=rng),
        "b": scale * torch.randn(3, generator=rng),
        "bn.running_mean": scale * torch.randn(3, generator=rng),
        "bn.num_batches_tracked": torch.tensor(7),
    }


def honest(count, seed=0):
    """A server, and updates that went steps of length 1 or so from it."""
    rng = torch.Generator().manual_seed(seed)
    start = model(rng)
    moved = [
        {
            n: w + s if w.is_floating_point() else w
            for (n, w), s in zip(start.items(), model(rng, 0.3).values(), strict=True)
        }
        for _ in range(count)
    ]
    return Server(start, PARAMETERS), [Update(10 * k + 1, w) for k, w in enumerate(moved)]


def end(how, server, updates, name="fedavg"):
    return make_algorithm(name, f"aggregation={how}").server_end(server, updates, len(updates)).weights


def length(weights, origin):
    return math.sqrt(sum((weights[n] - origin[n]).double().square().sum().item() for n in PARAMETERS))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 10, 11])
def test_median_and_trimmed_mean_are_flowers(count):
    server, updates = honest(count)
    arrays = [([u.weights[n].numpy() for n in PARAMETERS], u.samples) for u in updates]
    trimmed = min(max(1, count // 5), (count - 1) // 2) / count
    expected = {
        "median": aggregate_median(arrays),
        "trimmed-mean": aggregate_trimmed_avg(arrays, trimmed + 1e-9),
    }
    for how, theirs in expected.items():
        ours = end(how, server, updates)
        for name, value in zip(PARAMETERS, theirs, strict=True):
            np.testing.assert_allclose(ours[name], value, rtol=1e-5, atol=1e-6)
        assert ours["bn.num_batches_tracked"] == 7


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedavgm", "fedadam"])
def test_every_algorithm_that_averages_can_choose(name):
    server, updates = honest(5)
    server = make_algorithm(name).start_server(server.weights, PARAMETERS)
    results = [end(how, server, updates, name)["w"] for how in ("mean", *ROBUST)]
    for first, second in pairwise(results):
        assert not torch.equal(first, second)


@pytest.mark.parametrize("name", ["fednova", "scaffold"])
def test_the_others_refuse(name):
    with pytest.raises(ConfigurationError):
        make_algorithm(name, "aggregation=median")


def test_mean_is_the_default_and_names_no_other_run():
    assert Experiment(algorithm_options="aggregation=mean").name == Experiment().name
    assert Experiment(algorithm_options="aggregation=median").name != Experiment().name


@given(
    st.integers(3, 9),
    st.sampled_from(["huge", "negated", "samples"]),
    st.integers(0, 99),
    st.sampled_from(ROBUST),
)
def test_a_single_bad_update_does_not_move_the_model_further_than_honest_ones(count, attack, seed, how):
    server, updates = honest(count, seed)
    bad = updates[-1]
    weights = {
        n: w * {"huge": 1e6, "negated": -100, "samples": 1}[attack] if w.is_floating_point() else w
        for n, w in bad.weights.items()
    }
    spoilt = [*updates[:-1], Update(1 if attack != "samples" else 2**39, weights)]
    furthest = max(length(u.weights, server.weights) for u in updates)
    result = end(how, server, spoilt)
    if how == "clipped-mean":
        assert length(result, server.weights) <= furthest * 1.001
    else:
        for name in PARAMETERS:  # each number lies between those of honest clients
            values = torch.stack([u.weights[name] for u in updates[:-1]])
            assert (result[name] >= values.amin(0) - 1e-5).all()
            assert (result[name] <= values.amax(0) + 1e-5).all()
    if attack != "samples":
        plain = end("mean", server, [*spoilt[:-1], Update(updates[-1].samples, weights)])
        assert length(plain, server.weights) > 3 * furthest


def test_clipped_mean_shortens_long_steps_only_and_statistics_by_themselves():
    start = {"w": torch.zeros(2), "bn.running_mean": torch.zeros(1)}
    steps = [((1.0, 0.0), 100.0), ((0.0, 2.0), 1.0), ((0.0, -8.0), 3.0)]
    updates = [Update(1, {"w": torch.tensor(w), "bn.running_mean": torch.tensor([m])}) for w, m in steps]
    result = end("clipped-mean", Server(start, ("w",)), updates)
    torch.testing.assert_close(result["w"], torch.tensor([1.0, 0.0]) / 3)  # (1, 0) + (0, 2) - (0, 2)
    torch.testing.assert_close(result["bn.running_mean"], torch.tensor([7.0]) / 3)  # 3 + 1 + 3


def test_updates_that_go_nowhere():
    server, _ = honest(1)
    still = [Update(1, server.weights) for _ in range(3)]
    for how in ROBUST:
        for name, value in end(how, server, still).items():
            torch.testing.assert_close(value, server.weights[name])


def test_clipped_mean_of_equal_lengths_is_the_mean():
    server = Server({"w": torch.zeros(2)}, ("w",))
    updates = [
        Update(n, {"w": torch.tensor(w)}) for n, w in [(1, (1.0, 0.0)), (3, (0.0, 1.0)), (2, (-1.0, 0.0))]
    ]
    torch.testing.assert_close(end("clipped-mean", server, updates), average(updates))


def test_lengths_are_those_of_all_parameters_together():
    start = {"w": torch.zeros(2), "b": torch.zeros(1)}
    steps = [((3.0, 4.0), 0.0), ((0.0, 0.0), 4.0), ((6.0, 8.0), 0.0)]  # lengths 5, 4 and 10
    updates = [Update(1, {"w": torch.tensor(w), "b": torch.tensor([b])}) for w, b in steps]
    result = end("clipped-mean", Server(start, PARAMETERS), updates)
    torch.testing.assert_close(result["w"], torch.tensor([6.0, 8.0]) / 3)  # (3, 4) and half of (6, 8)
    torch.testing.assert_close(result["b"], torch.tensor([4.0]) / 3)


def test_counters_are_rounded_to_the_nearest():
    updates = [Update(1, {"n": torch.tensor(n)}) for n in (8, 99, 7, 0, 8)]
    result = end("trimmed-mean", Server({"n": torch.tensor(5)}), updates)
    assert result["n"].item() == 8  # 7, 8 and 8
    assert result["n"].dtype == torch.long

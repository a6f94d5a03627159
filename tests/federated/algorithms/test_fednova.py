"""FedNova against the formulas of its paper, with real steps of SGD with momentum."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedactive.federated import Server, Trajectory, make_algorithm
from fedactive.federated.local_sgd import path_length


def one_round(server, trajectories, samples):
    algorithm = make_algorithm("fednova")
    updates = [
        algorithm.client_end(server, {}, trajectory, n)[1]
        for trajectory, n in zip(trajectories, samples, strict=True)
    ]
    return algorithm.server_end(server, updates, len(updates)).weights


def test_by_hand():
    """Θ = 1; client 1 goes 0.1 on a path of length 0.1, client 2 goes 0.8 on one of 0.4; p = 1/4, 3/4.

    d = (1, 2), mean length 0.325, mean direction 1.75: Θ⁺ = 1 - 0.325 · 1.75 = 0.43125.
    The statistic takes the plain mean: (2 + 3 · 6)/4 = 5.
    """
    server = Server({"w": torch.tensor([1.0]), "mean": torch.tensor([0.0])}, ("w",))
    ends = [
        Trajectory({"w": torch.tensor([0.9]), "mean": torch.tensor([2.0])}, 0.1),
        Trajectory({"w": torch.tensor([0.2]), "mean": torch.tensor([6.0])}, 0.4),
    ]
    after = one_round(server, ends, (1, 3))
    assert after["w"].item() == pytest.approx(0.43125)
    assert after["mean"].item() == pytest.approx(5.0)


@given(
    steps=st.lists(st.integers(1, 8), min_size=2, max_size=4),
    momentum=st.sampled_from([0.0, 0.5, 0.9]),
    seed=st.integers(0, 10**6),
)
def test_the_papers_formula(steps, momentum, seed):
    """x⁺ = x - τ_eff Σ p_i η d_i,  d_i = G_i a_i/‖a_i‖₁,  τ_eff = Σ p_i ‖a_i‖₁,  a_i = (1 - ρ^(τ-t))/(1 - ρ)."""
    rng, rate = torch.Generator().manual_seed(seed), 0.05
    x = torch.randn(3, generator=rng, dtype=torch.float64)
    samples = [7 * (k + 1) for k in range(len(steps))]
    p = [n / sum(samples) for n in samples]
    ends, directions, norms = [], [], []
    for tau in steps:
        gradients = torch.randn(tau, 3, generator=rng, dtype=torch.float64)
        w, velocity = x.clone(), torch.zeros_like(x)
        for gradient in gradients:
            velocity = momentum * velocity + gradient
            w = w - rate * velocity
        a = torch.tensor([sum(momentum**j for j in range(tau - t)) for t in range(tau)], dtype=torch.float64)
        directions.append((a[:, None] * gradients).sum(0) / a.sum())
        norms.append(a.sum().item())
        ends.append(Trajectory({"w": w}, path_length((rate,) * tau, momentum)))
    tau_eff = sum(p_i * norm for p_i, norm in zip(p, norms, strict=True))
    wanted = x - tau_eff * sum(p_i * rate * d for p_i, d in zip(p, directions, strict=True))
    found = one_round(Server({"w": x}, ("w",)), ends, samples)["w"]
    assert torch.allclose(found, wanted, atol=1e-6)


def test_with_equal_lengths_it_is_fedavg():
    server = Server({"w": torch.tensor([1.0])}, ("w",))
    ends = [Trajectory({"w": torch.tensor([w])}, 0.3) for w in (0.5, 2.0)]
    assert one_round(server, ends, (1, 3))["w"].item() == pytest.approx(0.25 * 0.5 + 0.75 * 2.0)

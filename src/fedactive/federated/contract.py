"""The contract that every federated algorithm keeps, as a check for the tests of your own.

from fedactive.federated.contract import check_algorithm
check_algorithm(MyAlgorithm())
"""

from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from fedactive.federated.algorithm import Algorithm, Server, State, Trajectory
from fedactive.federated.closed_form import ClosedForm
from fedactive.federated.weights import Weights

PARAMETERS = ("layer.weight", "head.bias")


def check_algorithm(algorithm: Algorithm) -> None:
    """Run an algorithm for a few FL rounds; AssertionError says what it breaks."""
    global_state = torch.random.get_rng_state()
    if isinstance(algorithm, ClosedForm):
        check_sums(algorithm)
    else:
        check_steps(algorithm)
    assert torch.equal(global_state, torch.random.get_rng_state()), "torch's global generator was used"


def check_steps(algorithm: Algorithm) -> None:
    check_rest(algorithm)
    server = algorithm.start_server(example_weights(0), PARAMETERS)
    own = [algorithm.client_start(algorithm.client_view(server)) for _ in range(3)]
    form = algorithm.example_update(server)
    for fl_round in range(3):
        sent = algorithm.client_view(server)
        updates = []
        for k in range(3) if fl_round != 1 else (0, 2):  # in one round a client does not take part
            terms = call_purely(algorithm.terms, sent, own[k])
            extra = set(terms.drift or {}) - set(PARAMETERS)
            assert not extra, f"terms give a drift for {sorted(extra)}, which SGD does not move"
            trajectory = Trajectory(example_weights(10 * fl_round + k + 1), 0.1 * (k + 1))
            own[k], update = call_purely(algorithm.client_end, sent, own[k], trajectory, 10 + k)
            assert update.samples == 10 + k, f"an update counts {update.samples} samples, not {10 + k}"
            require_form("an update's weights", update.weights, form.weights)
            require_groups("an update", update.state, form.state)
            updates.append(update)
        after = call_purely(algorithm.server_end, server, updates, 3)
        other_way = algorithm.server_end(server, updates[::-1], 3)
        require_form("the server's weights", after.weights, server.weights)
        require_groups("the server", after.state, server.state)
        for name, value in after.weights.items():
            assert bool(torch.isfinite(value).all()), f"{name} is not finite"
            assert torch.allclose(value, other_way.weights[name], atol=1e-5), "the order of updates matters"
        server = restore_from_checkpoint(after)


def check_sums(algorithm: ClosedForm) -> None:
    """Check that clients' sums give the model that their samples give in one place."""
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 4, generator=rng), torch.randint(3, (30,), generator=rng)
    server = algorithm.start_server({"head.weight": torch.ones(3, 4), "head.bias": torch.ones(3)}, ())
    form = algorithm.example_update(server)
    updates = []
    for samples in torch.arange(30).split([3, 20, 7]):
        update = call_purely(algorithm.summarise, server, x[samples], y[samples])
        assert update.samples == len(samples), f"an update counts {update.samples} samples"
        require_form("an update's weights", update.weights, form.weights)
        require_groups("an update", update.state, form.state)
        updates.append(update)
    whole = algorithm.server_end(server, [algorithm.summarise(server, x, y)], 1).weights
    for some in (updates, updates[::-1], [*updates, form]):
        after = call_purely(algorithm.server_end, server, some, 3)
        require_form("the server's weights", after.weights, server.weights)
        require_groups("the server", after.state, server.state)
        for name, value in after.weights.items():
            assert torch.allclose(value, whole[name], atol=1e-6), f"{name} depends on who has which samples"


def check_rest(algorithm: Algorithm) -> None:
    """Check that the server stays where it is if no client moves."""
    server = algorithm.start_server(example_weights(0), PARAMETERS)
    sent, still = algorithm.client_view(server), Trajectory(example_weights(0), 0.1)
    updates = [algorithm.client_end(sent, algorithm.client_start(sent), still, 5)[1] for _ in range(2)]
    after = algorithm.server_end(server, updates, 2)
    for name, value in server.weights.items():
        assert torch.allclose(after.weights[name], value, atol=1e-6), f"{name} moved though no client did"


def example_weights(seed: int) -> Weights:
    """Make the weights of a small model: two parameters, a statistic of BatchNorm, a counter."""
    rng = torch.Generator().manual_seed(seed)
    return {
        "layer.weight": torch.randn(3, 2, generator=rng),
        "norm.running_var": torch.rand(3, generator=rng) + 0.5,
        "norm.num_batches_tracked": torch.tensor(7),
        "head.bias": torch.randn(4, generator=rng),
    }


def call_purely(function: Any, *arguments: Any) -> Any:
    """Call a function that must be pure: it returns the same again and does not change its arguments."""
    kept = deepcopy(arguments)
    first, again = function(*arguments), function(*arguments)
    assert flatten(arguments) == flatten(kept), f"{function.__name__} changes what it is given"
    assert flatten(first) == flatten(again), f"{function.__name__} does not give the same answer twice"
    return first


def flatten(thing: Any) -> list[Any]:
    """List all numbers in nested values, to compare them."""
    if isinstance(thing, Tensor):
        return [thing.tolist()]
    if isinstance(thing, dict):
        return [item for key in sorted(thing) for item in (key, *flatten(thing[key]))]
    if isinstance(thing, list | tuple):
        return [item for part in thing for item in flatten(part)]
    return flatten(vars(thing)) if hasattr(thing, "__dict__") else [thing]


def require_groups(what: str, given: State, wanted: State) -> None:
    assert given.keys() == wanted.keys(), f"{what} has the groups {sorted(given)}, before {sorted(wanted)}"
    for group in given:
        require_form(f"{what}'s {group}", given[group], wanted[group])


def require_form(what: str, given: Weights, wanted: Weights) -> None:
    assert given.keys() == wanted.keys(), f"{what} have other names than before"
    for name, value in given.items():
        same = value.shape == wanted[name].shape and value.dtype == wanted[name].dtype
        assert same, f"{what} have another shape or type than before: {name}"


def restore_from_checkpoint(server: Server) -> Server:
    """Return the server as it comes back from a checkpoint, which holds only plain tensors."""
    buffer = io.BytesIO()
    torch.save({"weights": server.weights, "state": server.state}, buffer)
    plain = torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)
    return Server(plain["weights"], server.parameters, plain["state"])

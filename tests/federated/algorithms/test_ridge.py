"""Ridge against scikit-learn, and in runs of the laboratory against all labels in one place."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as SklearnRidge
from torch.nn import functional as F

from fedactive.data.loader import load
from fedactive.errors import ConfigurationError
from fedactive.federated import Server, make_algorithm
from fedactive.federated.algorithm import sends_more_than_weights
from fedactive.laboratory.run import run
from fedactive.record.run_folder import read_checkpoint

PLAIN = "class_weights=false"


def make_samples(classes=5, dimensions=40, seed=0):
    """Features of length 10; the first class has most samples, the last but one a single one, the last none."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.repeat_interleave(torch.arange(classes), torch.tensor([60, 25, 9, 1, 0]))
    y = y[torch.randperm(len(y), generator=rng)]
    means = torch.randn(classes, dimensions, generator=rng)
    x = means[y] + 1.5 * torch.randn(len(y), dimensions, generator=rng)
    return 10 * F.normalize(x), y


def solve(options, x, y, parts=(95,), classes=5):
    """W and b, from clients that have so many of the samples each."""
    algorithm = make_algorithm("ridge", options)
    server = Server({"head.weight": torch.ones(classes, x.shape[1]), "head.bias": torch.ones(classes)})
    updates = [algorithm.summarise(server, x[own], y[own]) for own in torch.arange(len(x)).split(list(parts))]
    after = algorithm.server_end(server, updates, len(updates)).weights
    return after["head.weight"], after["head.bias"]


def pooled(x, y, penalty=30.0, weights=None, classes=5):
    """The same by scikit-learn, with all samples in one place."""
    model = SklearnRidge(alpha=penalty).fit(x.double(), F.one_hot(y, classes).double(), weights)
    return torch.from_numpy(model.coef_), torch.from_numpy(model.intercept_)


def assert_equal(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("parts", [(95,), (1, 94), (10, 20, 30, 35), (1,) * 95], ids=len)
@pytest.mark.parametrize("penalty", [30.0, 0.5])
def test_any_clients_solve_for_what_all_samples_together_give(parts, penalty):
    x, y = make_samples()
    assert_equal(solve(f"{PLAIN},penalty={penalty}", x, y, parts), pooled(x, y, penalty))


def test_with_class_weights_every_class_counts_the_same():
    """As if each class had its mean n/C times, and all deviations from the means once, around no mean."""
    x, y = make_samples()
    x, n, present = x.double(), torch.bincount(y, minlength=5), 4
    ones = torch.ones(len(x), 1, dtype=torch.double)
    rows, targets = torch.cat([x, ones], 1), F.one_hot(y, 5).double()
    means = torch.stack([rows[y == c].mean(0) if n[c] else rows[0] * 0 for c in range(5)])
    repeated = np.sqrt(len(y) / present)
    a = torch.cat([rows - means[y], repeated * means])  # least squares of these rows, with the penalty
    b = torch.cat([0 * targets, repeated * torch.eye(5).double() * (n > 0)])
    penalty = torch.diag(torch.tensor([30.0] * 40 + [0.0]).double())
    wanted = torch.linalg.solve(a.T @ a + penalty, a.T @ b)
    found = solve("", x.float(), y, (10, 20, 65))
    assert_equal(found, solve("", x.float(), y))
    torch.testing.assert_close(found[0].double(), wanted[:-1].T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[1].double(), wanted[-1], rtol=1e-5, atol=1e-5)


def test_class_weights_find_rare_classes_and_change_nothing_between_equal_ones():
    x, y = make_samples(seed=3)
    fresh, labels = make_samples(seed=3)
    rare = labels == 2
    recall = {
        options: ((fresh @ solve(options, x, y)[0].T + solve(options, x, y)[1]).argmax(1) == 2)[rare].sum()
        for options in ("penalty=1000", f"penalty=1000,{PLAIN}")
    }
    assert recall["penalty=1000"] > recall[f"penalty=1000,{PLAIN}"]
    even = torch.cat([(y == c).nonzero()[:9, 0] for c in range(3)])
    ours, theirs = (solve(o, x[even], y[even], (27,), classes=3) for o in ("", PLAIN))
    assert_equal(ours, theirs)


def test_a_class_without_labels_is_never_the_answer():
    x, y = make_samples()
    weights, bias = solve("", x, y)
    assert torch.equal(weights[4], torch.zeros(40))
    assert not ((x @ weights.T + bias).argmax(1) == 4).any()


def test_a_client_counts_as_the_labels_it_is_known_to_have():
    """One that multiplies its sums moves the model no more than it should."""
    x, y = make_samples()
    algorithm = make_algorithm("ridge")
    server = Server({"head.weight": torch.ones(5, 40), "head.bias": torch.ones(5)})
    honest, other = (algorithm.summarise(server, x[own], y[own]) for own in torch.arange(95).split(50))
    loud = replace(other, state={"sums": {name: 1000 * t for name, t in other.state["sums"].items()}})
    wanted, found = (algorithm.server_end(server, [honest, u], 2).weights for u in (other, loud))
    torch.testing.assert_close(found, wanted)


def test_a_client_that_counts_no_samples_moves_nothing():
    """Whether it has none, or says so of squares that it has."""
    x, y = make_samples()
    algorithm = make_algorithm("ridge")
    server = Server({"head.weight": torch.ones(5, 40), "head.bias": torch.ones(5)})
    honest, none = (algorithm.summarise(server, x[:n], y[:n]) for n in (95, 0))
    squares = {"squares": honest.state["sums"]["squares"], "classes": none.state["sums"]["classes"]}
    liar = replace(honest, state={"sums": squares})
    wanted = algorithm.server_end(server, [honest], 1).weights
    for other in (none, liar):
        torch.testing.assert_close(algorithm.server_end(server, [honest, other], 2).weights, wanted)


def test_sums_that_no_samples_have_make_no_model():
    x, y = make_samples()
    algorithm = make_algorithm("ridge")
    server = Server({"head.weight": torch.ones(5, 40), "head.bias": torch.ones(5)})
    update = algorithm.summarise(server, x, y)
    update.state["sums"]["squares"].neg_()
    assert algorithm.server_end(server, [update], 1).weights["head.weight"].isnan().all()


def test_its_message_is_half_a_matrix_and_no_weights():
    server = Server({"head.weight": torch.ones(5, 40), "head.bias": torch.ones(5)})
    example = make_algorithm("ridge").example_update(server)
    assert example.weights == {}
    assert {name: tuple(t.shape) for name, t in example.state["sums"].items()} == {
        "squares": (41 * 42 // 2,),
        "classes": (5, 41),
    }
    assert sends_more_than_weights(make_algorithm("ridge"))


# --- in the laboratory


@pytest.fixture
def features(tmp_path):
    """A file of features in which classes can be told apart, but not easily."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 30))
    arrays = {}
    for split, count in (("train", 400), ("test", 200)):
        labels = np.arange(count) % 4
        arrays[f"{split}_features"] = means[labels] + 2 * rng.normal(size=(count, 30))
        arrays[f"{split}_labels"] = labels
    path = tmp_path / "features.npz"
    np.savez(path, **arrays)
    return path


def test_a_run_is_the_solution_of_all_labels_in_one_place(small, features):
    """After every AL round, with one FL round each, however many were asked for; margin asks by its model."""
    experiment = small(
        dataset=str(features), model="linear", algorithm="ridge", algorithm_options=PLAIN,
        strategy="margin", fl_rounds=50, rounds=2,
    )  # fmt: skip
    result = run(experiment)
    assert result.metrics["fl_round"].tolist() == [1, 1]
    data, known = load(str(features), experiment.data_dir), result.selections
    x, y = data.train_inputs[known["sample"].tolist()], torch.tensor(known["label"].tolist())
    found = read_checkpoint(result.folder / "checkpoint.pt").server.weights
    wanted = pooled(x, y, classes=4)
    assert_equal((found["head.weight"], found["head.bias"]), wanted)
    right = (data.test_inputs.double() @ wanted[0].T + wanted[1]).argmax(1) == data.test_labels
    assert result.accuracy[2] == pytest.approx(right.double().mean().item())
    assert result.accuracy[2] > 0.6


def test_engines_and_resumption_agree(small, features, tmp_path):
    settings = {"dataset": str(features), "model": "linear", "algorithm": "ridge", "strategy": "logo"}
    whole = run(small(**settings, rounds=2, runs_dir=tmp_path / "a"))
    apart = small(**settings, rounds=1, workers=2, runs_dir=tmp_path / "b")
    run(apart)
    assert run(replace(apart, rounds=2)).metrics.equals(whole.metrics)


def test_it_needs_one_round_and_a_linear_model(small):
    linear = small(model="linear", algorithm="ridge", fl_rounds=50)
    assert linear.fl_rounds == 1
    assert linear.hash == small(model="linear", algorithm="ridge").hash
    with pytest.raises(
        ConfigurationError, match=r"model: 'cnn4' was given, allowed is linear with algorithm ridge"
    ):
        small(model="cnn4", algorithm="ridge")

import math
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedactive.data.loader import load
from fedactive.errors import ConfigurationError, DataError
from fedactive.experiment import Experiment


def test_defaults_are_the_papers():
    e = Experiment()
    assert (e.dataset, e.clients, e.alpha, e.rho) == ("cifar10", 10, 0.1, 1.0)
    assert (e.strategy, e.selector, e.budget, e.rounds) == ("logo", "both", 5.0, 16)
    assert (e.model, e.algorithm, e.init, e.fl_rounds, e.local_epochs) == ("cnn4", "fedavg", "random", 100, 5)
    assert (e.batch_size, e.lr, e.momentum, e.weight_decay) == (64, 0.01, 0.9, 1e-5)
    assert (e.local_only_epochs, e.local_only_stop) == (50, 0.99)


def test_rounds_follow_dataset_and_budget():
    assert Experiment(dataset="svhn").rounds == 12
    assert Experiment(budget=20).rounds == 4
    assert Experiment(dataset="svhn", budget=1).rounds == 60
    assert Experiment(budget=0.1, rounds=1001).rounds == 1001  # all of them, and one for what rounding leaves


def test_a_budget_may_be_a_number_of_labels_of_each_client():
    e = Experiment(budget="10/client")
    assert (e.budget, e.rounds) == ("10/client", 5)
    assert Experiment(budget="10/client", rounds=999).rounds == 999  # how many there can be, the data say
    assert Experiment.from_toml(e.to_toml()) == e
    assert Experiment.from_values({"budget": "010/client"}) == e
    assert Experiment.from_values({"budget": "10"}) == Experiment(budget=10)  # percent
    assert len({Experiment(budget=budget).hash for budget in (10, "10/client", "11/client")}) == 3
    assert Experiment(budget=10).percent == 10
    with pytest.raises(ConfigurationError, match="budget: '10/client' was given, allowed is a number of"):
        _ = e.percent


@pytest.mark.parametrize(
    "budget",
    [
        "0/client",
        "1.5/client",
        "-1/client",
        "/client",
        "10/clients",
        "²/client",
        "5+/client",
        "5+0/client",
        "5+5",
    ],
)
def test_other_budgets_are_refused(budget):
    sentence = "a number from 0.01 to 100, or whole numbers as in 10/client or 5+10/client"
    for make in (lambda: Experiment(budget=budget), lambda: Experiment.from_values({"budget": budget})):
        with pytest.raises(
            ConfigurationError, match=re.escape(f"budget: '{budget}' was given, allowed is {sentence}")
        ):
            make()


def test_a_budget_may_grow_from_round_to_round():
    e = Experiment(budget="5+5+10/client")
    assert (e.budget, e.rounds) == ("5+5+10/client", 3)
    assert replace(e, rounds=7).hash == e.hash  # more rounds extend the run, with 10 in each
    assert Experiment(budget="5+05+10+10/client").hash == e.hash  # says the same
    assert Experiment(budget="5+5+10+10/client").rounds == 4
    assert Experiment(budget="10+10/client") == Experiment(budget="10/client", rounds=2)
    assert Experiment.from_toml(e.to_toml()) == e


def test_selector_is_settled_by_the_strategy():
    assert Experiment(strategy="random").selector == "none"
    assert Experiment(strategy="entropy").selector == "global"
    assert Experiment(strategy="entropy", selector="local").selector == "local"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"strategy": "lgo"}, r"strategy: 'lgo' was given, allowed is one of .*; did you mean 'logo'\?"),
        ({"dataset": "cifar"}, r"dataset: 'cifar' was given.*, or the path .*did you mean 'cifar10'"),
        (
            {"dataset": "nowhere.npz"},
            r"dataset: 'nowhere.npz' was given, allowed is the path of an \.npz file",
        ),
        (
            {"strategy": "logo", "selector": "global"},
            "selector: 'global' was given, allowed is both with strategy logo",
        ),
        ({"clients": 0}, "clients: 0 was given, allowed is a whole number, 1 or more"),
        ({"clients": 2.5}, "clients: 2.5 was given, allowed is a whole number"),
        ({"clients": True}, "clients: True was given"),
        ({"alpha": math.nan}, "alpha: nan was given"),
        ({"alpha": 0}, "alpha: 0.0 was given, allowed is a number, 0.01 or more"),
        ({"scored_images": "other_of_class"}, "own, or rho above 1: long tails alone had that"),
        ({"rho": math.inf}, "rho: inf was given, allowed is a number from 1 to 10000"),
        (
            {"seed": 2**63},
            "seed: 9223372036854775808 was given, allowed is a whole number from 0 to 9223372036854775807",
        ),
        ({"participation": 1.5}, "participation: 1.5 was given, allowed is a number from 0.001 to 1"),
        ({"rounds": 40}, "rounds: 40 was given, allowed is at most 21 with a budget of 5%"),
        (
            {"first": "logo"},
            "first: 'logo' was given, allowed is a strategy that needs no model: auto, fedtypiclust, ",
        ),
        ({"precision": "fp16"}, "precision: 'fp16' was given, allowed is one of bf16, fp32, tf32"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(ConfigurationError, match=sentence) as caught:
        Experiment(**changes)
    assert "\n" not in str(caught.value)


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        Experiment().seed = 2  # type: ignore[misc]


experiments = st.builds(
    Experiment,
    alpha=st.one_of(st.just(math.inf), st.floats(0.01, 1e6)),
    lr=st.floats(1e-8, 100),
    seed=st.integers(0, 2**63 - 1),
    strategy=st.sampled_from(["logo", "entropy", "random"]),
    data_dir=st.sampled_from(
        [Path("data"), Path('a "quoted" \\ folder'), Path("ünï"), Path("two\nlines\t\x01\x7f")]
    ),
)


@given(experiments)
def test_toml_round_trip(experiment):
    again = Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    assert again.hash == experiment.hash


def test_numbers_of_arrays_are_plain_numbers():
    (seed,), (alpha,) = np.array([3]), np.linspace(0.5, 1, 1)
    e = Experiment(seed=seed, alpha=alpha, clients=np.int32(20), lr=np.float32(0.5))
    assert [type(value) for value in (e.seed, e.alpha, e.clients, e.lr)] == [int, float, int, float]
    assert e == Experiment.from_toml(e.to_toml()) == Experiment(seed=3, alpha=0.5, clients=20, lr=0.5)


def test_flags_win_over_the_file_and_may_be_text():
    e = Experiment.from_toml('strategy = "random"\nalpha = 1', alpha="inf", seed="7")
    assert (e.strategy, e.alpha, e.seed) == ("random", math.inf, 7)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("alhpa = 1", "setting: 'alhpa' was given, allowed is one of .*did you mean 'alpha'"),
        ("alpha = ", "config: .* was given, allowed is a TOML file"),
        ('clients = "many"', "clients: 'many' was given, allowed is a whole number"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        Experiment.from_toml(text)


def test_the_hash_names_what_decides_the_result_and_nothing_else():
    base = Experiment()
    assert Experiment(runs_dir="elsewhere", device="cpu", workers=3, data_dir="x").hash == base.hash
    assert Experiment(alpha=1).hash == Experiment(alpha=1.0).hash
    assert Experiment(rounds=16, selector="both").hash == base.hash
    others = [
        Experiment(seed=2),
        Experiment(lr=0.02),
        Experiment(strategy="random"),
        Experiment(algorithm="fedprox", algorithm_options="mu=0.1"),
    ]
    assert len({base.hash, *(e.hash for e in others)}) == 5


def test_the_hash_is_stable():
    """Run folders of released versions must be found again: this changes only with a new format version."""
    assert Experiment(dataset="digits", strategy="random").name == "digits-random-none-s1-9c6c45e901"


# A file of the user's own --------------------------------------------------------------------------------


def write_own_file(path: Path, seed: int = 0) -> Path:
    images = np.random.default_rng(seed).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    labels = np.arange(20) % 2
    path.parent.mkdir(exist_ok=True)
    np.savez(path, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    return path


def test_a_path_stays_as_given_and_comes_back_from_toml(tmp_path, monkeypatch):
    write_own_file(tmp_path / 'my "own" file.npz')
    monkeypatch.chdir(tmp_path)
    e = Experiment(dataset='my "own" file.npz')
    assert e.dataset == 'my "own" file.npz'
    assert Experiment.from_toml(e.to_toml()) == e
    assert Experiment(dataset=Path(e.dataset)) == e
    assert e.rounds == 12
    assert e.name.startswith("my-own-file-logo-both-s1-")


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_own_file(tmp_path / "x.npz")
    e = Experiment.from_toml('dataset = "~/x.npz"\ndata_dir = "~/data"', runs_dir="~/runs")
    assert (e.data_dir, e.runs_dir) == (tmp_path / "data", tmp_path / "runs")
    assert load(e.dataset, e.data_dir, e.dataset_sha256).input_shape == (1, 8, 8)


def test_a_run_is_known_by_name_and_content_of_the_file_and_not_by_its_place(tmp_path):
    here, there = write_own_file(tmp_path / "a/x.npz"), write_own_file(tmp_path / "b/x.npz")
    another, renamed = write_own_file(tmp_path / "c/x.npz", seed=1), write_own_file(tmp_path / "y.npz")
    names = [Experiment(dataset=str(path)).name for path in (here, there, another, renamed)]
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_a_file_that_changed_is_refused_where_its_content_is_laid_down(tmp_path):
    path = write_own_file(tmp_path / "x.npz")
    saved = Experiment(dataset=str(path)).to_toml()
    write_own_file(path, seed=1)
    with pytest.raises(DataError, match=r"x\.npz: not the same file: its SHA-256 begins with"):
        Experiment.from_toml(saved)


def test_content_is_of_files_alone(tmp_path):
    with pytest.raises(
        ConfigurationError, match="dataset_sha256: 'abc' was given, allowed is none: digits is not a file"
    ):
        Experiment(dataset="digits", dataset_sha256="abc")


def test_a_file_named_like_a_dataset_is_not_that_dataset(tmp_path):
    path = write_own_file(tmp_path / "cifar10.npz")
    own, official = Experiment(dataset=str(path), rounds=1), Experiment(rounds=1)
    assert own.name.startswith("cifar10-")
    assert own.hash != official.hash

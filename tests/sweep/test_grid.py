"""What a grid of settings means."""

from dataclasses import replace

import pytest

import fedactive.sweep.grid
from fedactive.errors import ConfigurationError, RunError
from fedactive.experiment import Experiment
from fedactive.laboratory.run import run
from fedactive.sweep.grid import expand, require_data


def test_the_grid_is_every_combination_and_a_selector_is_only_for_those_that_have_a_choice():
    grid = expand(
        {"strategy": ["logo", "entropy", "random"], "selector": ["global", "local"], "seed": [1, 2]}
    )
    names = [(e.strategy, e.selector, e.seed) for e in grid]
    assert len(names) == len(set(names)) == 8
    assert ("entropy", "local", 2) in names
    assert ("logo", "both", 1) in names
    assert len(expand({"alpha": ["0.1", "inf"], "dataset": "digits"})) == 2
    with pytest.raises(ConfigurationError, match="did you mean 'logo'"):
        expand({"strategy": ["random", "lgo"]})
    with pytest.raises(ConfigurationError, match=r"seed: .* allowed is a list with at least one value"):
        expand({"seed": []})


def test_budgets_of_both_kinds_and_first_strategies_are_settings_like_others():
    values = {"budget": ["5", "7/client"], "first": ["random", "typiclust"], "strategy": "margin"}
    grid = expand(values | {"rounds": "3"})
    assert [(e.budget, e.first) for e in grid] == [
        (5.0, "random"), (5.0, "typiclust"), ("7/client", "random"), ("7/client", "typiclust"),
    ]  # fmt: skip
    with pytest.raises(
        ConfigurationError,
        match="first: 'logo' was given, allowed is a strategy that needs no model: auto, fed",
    ):
        expand({"first": ["random", "logo"]})


def test_options_are_only_for_strategies_that_have_some():
    grid = expand(
        {"strategy": ["logo", "random"], "strategy_options": ["micro=margin", "micro=entropy"], "seed": 1}
    )
    assert [(e.strategy, e.strategy_options) for e in grid] == [
        ("logo", "micro=margin"), ("logo", ""), ("random", ""),
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match="did you mean 'micro'"):
        expand({"strategy": ["logo", "random"], "strategy_options": "mikro=margin"})


@pytest.mark.parametrize("mu", [["0.01", "0.1"], ["0.1", "0.01"]])
def test_mu_is_only_for_fedprox(mu):
    settings = {"algorithm": ["fedavg", "fedprox", "scaffold"]}
    for grid in (
        expand(settings | {"mu": mu}),  # as version 0.1 had it
        expand(settings | {"algorithm_options": [f"mu={value}" for value in mu]}),
    ):
        assert sorted((e.algorithm, e.algorithm_options) for e in grid) == [
            ("fedavg", ""), ("fedprox", ""), ("fedprox", "mu=0.1"), ("scaffold", ""),
        ]  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "random", "selector": "garbage"},
        {"strategy": ["random", "logo"], "selector": ["global", "garbage"]},
        {"strategy": "random", "strategy_options": "micro=margin"},
        {"algorithm": "fedavg", "algorithm_options": "mu=0.1"},
        {"algorithm": ["fedavg", "fedprox"], "algorithm_options": "mu=-1"},
        {"algorithm": "fedavg", "mu": "garbage"},
    ],
)
def test_what_nothing_in_the_grid_can_use_is_refused(settings):
    with pytest.raises(ConfigurationError):
        expand(settings)


@pytest.mark.parametrize("heads", [["head=own", "head=global"], ["head=global", "head=own"]])
def test_alfamix_by_the_global_model_has_one_head(heads):
    grid = expand({"strategy": "alfamix", "selector": ["global", "local"], "strategy_options": heads})
    assert sorted((e.selector, e.strategy_options) for e in grid) == [
        ("global", ""), ("local", ""), ("local", "head=global"),
    ]  # fmt: skip
    single = Experiment(strategy="alfamix", selector="global", strategy_options="head=global")
    assert single.strategy_options == "head=global"


@pytest.mark.parametrize("name", ["rounds", "workers", "runs_dir"])
def test_what_does_not_tell_runs_apart_has_one_value(name):
    with pytest.raises(ConfigurationError, match=f"{name}: .* allowed is one value"):
        expand({"dataset": "digits", name: ["3", "5"]})


def test_data_that_runs_were_not_begun_with_is_told(small, monkeypatch):
    run(small())
    require_data([small()])
    monkeypatch.setattr(
        fedactive.sweep.grid, "load_inputs", with_other_labels(fedactive.sweep.grid.load_inputs)
    )
    with pytest.raises(RunError, match="digits is not the same as when"):
        require_data([small()])


def with_other_labels(load):
    def changed(*arguments):
        dataset = load(*arguments)
        return replace(dataset, train_labels=dataset.train_labels.flip(0))

    return changed

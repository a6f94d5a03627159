from collections import Counter

import pytest

from fedactive.errors import ConfigurationError
from fedactive.paper import paper_table
from fedactive.paper.reproduce import experiments
from fedactive.paper.settings import (
    CATEGORIES,
    COMPARED,
    all_settings,
    paper_experiment,
    seed_range,
    setting_numbers,
)
from fedactive.paper.tables import PRINTED, cells


def test_there_are_38_settings_half_of_them_by_each_selector():
    settings = all_settings()
    assert [s.number for s in settings] == list(range(1, 39))
    assert len({(s.title, s.selector) for s in settings}) == 38
    assert len({s.title for s in settings}) == 19
    assert settings[0].title == "cifar10, alpha 0.1, cnn4, budget 5%, random start"
    assert settings[-1].title == "svhn, alpha 0.1, cnn4, budget 20%, random start"


def test_the_categories_have_as_many_settings_as_the_paper_says():
    six = list(CATEGORIES.items())[1:]  # after all settings together
    count = Counter((name, value(setting)) for name, value in six for setting in all_settings())
    assert dict(count) == {
        ("query selector", "global"): 19, ("query selector", "local"): 19,
        ("heterogeneity", "alpha 0.1"): 30, ("heterogeneity", "alpha 1"): 4, ("heterogeneity", "alpha inf"): 4,
        ("imbalance", "rho < 2"): 18, ("imbalance", "rho ≥ 2"): 20,
        ("architecture", "cnn4"): 30, ("architecture", "resnet18"): 4, ("architecture", "mobilenet"): 4,
        ("budget", "1%"): 4, ("budget", "5%"): 30, ("budget", "20%"): 4,
        ("initialisation", "random"): 34, ("initialisation", "continue"): 4,
    }  # fmt: skip


def test_a_setting_gives_the_paper_s_experiments():
    continued = next(s for s in all_settings() if s.init == "continue" and s.selector == "local")
    made = [continued.experiment(name, fl_rounds=20) for name in COMPARED]
    assert [e.strategy for e in made] == list(COMPARED)
    assert {(e.strategy, e.selector) for e in made} >= {
        ("random", "none"),
        ("entropy", "local"),
        ("logo", "both"),
    }
    shared = {
        (e.dataset, e.alpha, e.model, e.budget, e.init, e.partition, e.schedule, e.fl_rounds) for e in made
    }
    assert shared == {("cifar10", 0.1, "cnn4", 5.0, "continue", "reference", "paper", 20)}
    assert made[0].rounds == 16


@pytest.mark.parametrize(
    ("name", "selector", "expected"),
    [
        ("ensemble_rank_badge", "both", ("ensemble_rank", "both", "base=badge")),
        ("finetune_entropy", "finetuned", ("finetune", "both", "")),
        ("random", "local", ("random", "none", "")),
        ("gcnal", "local", ("gcnal", "local", "")),
        ("alfamix", "local", ("alfamix", "local", "")),
    ],
)
def test_names_of_the_tables_become_strategies(name, selector, expected):
    made = paper_experiment(name, selector)
    assert (made.strategy, made.selector, made.strategy_options) == expected


def test_the_released_code_s_head_is_for_alfamix_by_the_local_only_model_alone():
    made = {
        (cell.experiment.strategy, cell.experiment.selector, cell.experiment.strategy_options)
        for cell in cells("accuracy", alfamix_head="global")
    }
    assert ("alfamix", "local", "head=global") in made
    assert sum(bool(options) for *_, options in made) == 1
    with pytest.raises(ConfigurationError, match=r"head: 'lobal' was given, allowed is one of global, own"):
        cells("emd", alfamix_head="lobal")


def test_every_number_of_every_table_has_an_experiment_that_comes_by_it():
    numbers = {"accuracy": 192, "ensembles": 49, "algorithms": 84, "emd": 240, "cost": 33}
    for name in PRINTED:
        made = cells(name)
        assert len(made) == numbers[name]
        for cell in made:
            assert cell.al_round * cell.experiment.budget == cell.labelled
            assert cell.al_round <= cell.experiment.rounds
            assert cell.experiment.partition == "reference"
    assert len(paper_table("emd")) == 120


def test_a_row_of_the_ensembles_and_one_of_the_algorithms():
    ensemble = cells("ensembles")[7]
    assert ensemble.columns["strategy"] == "ensemble_logit_badge"
    assert (ensemble.experiment.strategy_options, ensemble.paper, ensemble.al_round) == (
        "base=badge",
        65.55,
        4,
    )
    prox = cells("algorithms")[0]
    assert (prox.experiment.algorithm, prox.experiment.algorithm_options, prox.paper) == (
        "fedprox",
        "",
        62.89,
    )


def test_runs_of_some_settings_go_as_far_as_is_wanted():
    """Budget 1% to 10%, 20% to 60%; those that go on with their weights; six rows of ResNet-18."""
    small = experiments("penalty", settings=[16, 35], until=10)
    assert {(e.dataset, e.budget, e.rounds) for e in small} == {("cifar10", 1, 10)}
    assert len(small) == 12 * 4  # twelve rows: Random and LoGo are in both halves
    large = experiments("penalty", settings=[18, 19, 37, 38], until=60)
    assert {(e.dataset, e.budget, e.rounds) for e in large} == {("cifar10", 20, 3), ("svhn", 20, 3)}
    assert {e.init for e in experiments("penalty", settings=[10, 11])} == {"continue"}
    rows = ["random", "entropy", "badge", "logo"]
    resnet = experiments("penalty", settings=[12, 31], strategies=rows, seeds=[1, 2], until=20)
    assert {e.model for e in resnet} == {"resnet18"}
    assert len(resnet) == 6 * 2


def test_settings_whose_first_budget_is_beyond_the_end_are_left_out():
    assert {e.budget for e in experiments("penalty", until=10)} == {1, 5}
    assert {e.budget for e in experiments("penalty", until=20)} == {1, 5, 20}
    with pytest.raises(ConfigurationError, match="until: 10 was given, allowed is at least one budget, 20%"):
        experiments("penalty", settings=[18], until=10)
    with pytest.raises(ConfigurationError, match="table: 'emd' was given, allowed is penalty"):
        experiments("emd", settings=[18])


def test_numbers_of_settings_and_of_seeds():
    assert setting_numbers("1-3,16") == [1, 2, 3, 16]
    assert (list(seed_range("3")), seed_range("5-16")) == ([1, 2, 3], range(5, 17))
    for text in ("39", "0", "x", ""):
        with pytest.raises(ConfigurationError, match="numbers from 1 to 38"):
            setting_numbers(text)

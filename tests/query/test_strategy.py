from dataclasses import dataclass

import pytest
import torch

from fedactive import Experiment
from fedactive.errors import ConfigurationError, UserError
from fedactive.laboratory.run import run
from fedactive.query import STRATEGIES, ScoringStrategy, Selection, Strategy, make_strategy
from fedactive.query.contract import make_pool
from fedactive.query.strategies.logo import LoGo
from fedactive.query.strategy import ScoringNames, parameter, require_contract


def test_options_become_parameters():
    assert make_strategy("logo", "both", "micro=margin") == LoGo(micro="margin")
    assert make_strategy("logo", "both") == LoGo(micro="entropy")


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        (
            "logo",
            "mikro=margin",
            "strategy_options: 'mikro' was given, allowed is one of micro; did you mean 'micro'",
        ),
        ("logo", "micro=badge", "strategy_options: micro: 'badge' was given, allowed is one of entropy"),
        (
            "logo",
            "micro=margin,micro=entropy",
            "strategy_options: 'micro=margin,micro=entropy' was given, allowed is micro only once",
        ),
        (
            "logo",
            "micro=entropy, micro = entropy",
            "strategy_options: 'micro=entropy, micro = entropy' was given, allowed is micro only once",
        ),
        (
            "random",
            "micro=margin",
            "strategy_options: 'micro=margin' was given, allowed is nothing: random has no options",
        ),
    ],
)
def test_wrong_options_are_refused(name, options, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        STRATEGIES.options(name, options)
    with pytest.raises(ConfigurationError, match=sentence):
        Experiment(strategy=name, strategy_options=options)


def test_a_default_spelt_out_is_the_same_run():
    assert Experiment(strategy_options="micro=entropy").hash == Experiment().hash
    assert Experiment(strategy_options=" micro = margin ").strategy_options == "micro=margin"
    assert Experiment(strategy_options="micro=margin").hash != Experiment().hash


class OnlyLocal(ScoringStrategy):
    name, summary, paper, selectors = "only_local", "", "", ("local",)

    @staticmethod
    def score(outputs):
        return outputs.logits[:, 0]


def test_the_only_selector_of_a_strategy_is_the_one_that_chooses(monkeypatch):
    monkeypatch.setitem(STRATEGIES.classes, "only_local", OnlyLocal)
    e = Experiment(strategy="only_local")
    strategy = make_strategy(e.strategy, e.selector)
    assert strategy.needs == {"local"}
    pool = make_pool(30, 3)
    chosen = strategy.select(pool, 5, torch.Generator())
    assert chosen.indices.tolist() == pool.unlabelled("local").logits[:, 0].topk(5).indices.tolist()


@pytest.mark.parametrize("budget", [3, 9])
def test_a_selection_of_different_positions_with_a_score_each_is_accepted(budget):
    chosen = Selection(torch.tensor([2, 0, 1]), torch.tensor([9, 8, 7]))
    require_contract(make_strategy("random", "none"), chosen, size=3, budget=budget)


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        (
            (torch.tensor([0, 1]), torch.zeros(2)),
            "strategy random did not return a Selection of two torch tensors",
        ),
        (Selection([0, 1], torch.zeros(2)), "did not return a Selection of two torch tensors"),
        (Selection(torch.tensor([0, 1]), [0.0, 0.0]), "did not return a Selection of two torch tensors"),
        (Selection(torch.tensor([0.0, 1.0]), torch.zeros(2)), "positions as whole numbers"),
        (Selection(torch.tensor([0]), torch.zeros(1)), "chose 1 positions in a pool of 5, 1 of them valid"),
        (Selection(torch.tensor([0, 1, 2]), torch.zeros(3)), "chose 3 .* 3 of them valid .* must choose 2"),
        (Selection(torch.tensor([1, 1]), torch.zeros(2)), "chose 2 .* 1 of them valid and different"),
        (Selection(torch.tensor([0, 5]), torch.zeros(2)), "chose 2 .* 1 of them valid and different"),
        (Selection(torch.tensor([-1, 0]), torch.zeros(2)), "chose 2 .* 1 of them valid and different"),
        (
            Selection(torch.tensor([1, 2]), torch.zeros(3)),
            r"gave scores of shape \(3,\); it must give one for each",
        ),
    ],
)
def test_any_other_selection_is_refused(chosen, complaint):
    with pytest.raises(UserError, match=complaint):
        require_contract(make_strategy("random", "none"), chosen, size=5, budget=2)


def test_the_scoring_strategies_are_those_that_logo_may_use():
    assert list(ScoringNames()) == ["entropy", "least_confidence", "margin"]
    assert "margin" in ScoringNames()
    assert "badge" not in ScoringNames()


def test_nothing_is_chosen_from_an_empty_pool_or_with_no_budget():
    pools = [make_pool(n, 3) for n in (0, 4, 0)]
    rngs = [torch.Generator().manual_seed(k) for k in range(3)]
    for budget, sizes in ((0, [0, 0, 0]), (2, [0, 2, 0])):
        chosen = make_strategy("logo", "both").select_all(pools, budget, rngs)
        assert [len(selection.indices) for selection in chosen] == sizes
        assert [len(selection.scores) for selection in chosen] == sizes


def test_a_model_that_does_not_exist_is_refused_before_the_run(monkeypatch):
    class Dreamer(Tempered):
        name, needs = "dreamer", frozenset({"globl"})

    monkeypatch.setitem(STRATEGIES.classes, "dreamer", Dreamer)
    with pytest.raises(
        ConfigurationError, match=r"needs of strategy dreamer: 'globl' .* did you mean 'global'"
    ):
        Experiment(strategy="dreamer")


@dataclass(frozen=True)
class Tempered(Strategy):
    name, summary, paper, selectors, needs = "tempered", "", "", ("none",), frozenset()

    temperature: float = parameter(0.5, (0.1, 0.5, 1.0), "of the softmax")
    steps: int = parameter(3, (1, 3, 10), "of the search")
    centred: bool = parameter(True, (True, False), "take the mean away")

    def select(self, pool, budget, rng):
        chosen = torch.randperm(len(pool), generator=rng)[:budget]
        return Selection(chosen, torch.full(chosen.shape, self.temperature))


def test_a_strategy_is_asked_only_for_what_it_says():
    assert Tempered.needs_model
    assert not Tempered.coordinated
    assert Tempered.numbers == 0
    assert Tempered().remembers == frozenset()


def test_clients_keep_the_models_of_training_that_a_strategy_asks_for():
    class Asks(Tempered):
        needs = frozenset({"global", "epochs"})

    assert Asks().remembers == {"epochs"}


def test_an_option_may_be_a_number_or_a_truth(monkeypatch):
    monkeypatch.setitem(STRATEGIES.classes, "tempered", Tempered)
    assert make_strategy("tempered", "none") == Tempered(0.5, 3, True)
    given = make_strategy("tempered", "none", "temperature=1,steps=10,centred=False")
    assert given == Tempered(1.0, 10, False)
    assert [type(value) for value in vars(given).values()] == [float, int, bool]
    same = [Experiment(strategy="tempered", strategy_options=f"temperature={t}") for t in ("1", "1.0", "1e0")]
    assert {e.strategy_options for e in same} == {"temperature=1.0"}
    assert Experiment(strategy="tempered", strategy_options="temperature=0.50").strategy_options == ""


@dataclass(frozen=True)
class Whole(Tempered):
    name = "whole"
    temperature: float = parameter(0.5, (0, 0.5, 1), "with choices that are written as whole numbers")


@pytest.mark.parametrize("text", ["1", "1.0", "1e0"])
def test_a_choice_may_be_written_as_it_is_listed(monkeypatch, text):
    monkeypatch.setitem(STRATEGIES.classes, "whole", Whole)
    assert make_strategy("whole", "none", f"temperature={text}") == Whole(1)
    assert make_strategy("whole", "none", "temperature=0") == Whole(0)
    assert Experiment(strategy="whole", strategy_options=f"temperature={text}").strategy_options == (
        "temperature=1"
    )


def test_a_run_uses_its_options(monkeypatch, small):
    monkeypatch.setitem(STRATEGIES.classes, "tempered", Tempered)
    queried = run(small(strategy="tempered", strategy_options="temperature=0.1", rounds=2)).selections
    assert queried.query("al_round == 2")["score"].unique() == pytest.approx([0.1])


@pytest.mark.parametrize("options", ["temperature=0.2", "temperature=warm", "steps=1.5", "centred=no"])
def test_an_option_that_is_none_of_its_choices_is_refused(monkeypatch, options):
    monkeypatch.setitem(STRATEGIES.classes, "tempered", Tempered)
    with pytest.raises(ConfigurationError, match=r"was given, allowed is (one of|true or false)"):
        Experiment(strategy="tempered", strategy_options=options)

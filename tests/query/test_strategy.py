import pytest

from fedactive import Experiment
from fedactive.errors import ConfigurationError
from fedactive.query import LoGo, make_strategy
from fedactive.query.strategy import parse_options


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
            "random",
            "micro=margin",
            "strategy_options: 'micro=margin' was given, allowed is nothing: random has no options",
        ),
    ],
)
def test_wrong_options_are_refused(name, options, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        parse_options(name, options)
    with pytest.raises(ConfigurationError, match=sentence):
        Experiment(strategy=name, strategy_options=options)


def test_a_default_spelt_out_is_the_same_run():
    assert Experiment(strategy_options="micro=entropy").hash == Experiment().hash
    assert Experiment(strategy_options=" micro = margin ").strategy_options == "micro=margin"
    assert Experiment(strategy_options="micro=margin").hash != Experiment().hash

"""A method stands for settings, each of which may still be given otherwise."""

from __future__ import annotations

import pytest

from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.methods import METHODS, merge, method_class, settings_of, with_method
from fedactive.registry import STRATEGIES, load_plugin
from fedactive.sweep.grid import expand

PLUGIN = """
from fedactive.methods import register

@register
class {name}:
    name = "{name}"
    summary = "clusters, then margins, with momentum"
    paper = "nobody, 2026"
    settings = {{"strategy": "logo", "strategy_options": "micro=margin", "momentum": 0.5}}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.setattr(METHODS, "classes", dict(METHODS.classes))
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN.format(name="mine"))
    load_plugin(file)


def run_of(**values):
    return Experiment.from_values({"dataset": "digits", **values})


@pytest.mark.parametrize("strategy", ["logo", "random", "badge"])
def test_a_strategy_is_a_method_and_the_same_run(strategy):
    assert run_of(method=strategy) == run_of(strategy=strategy)
    assert run_of(method=strategy).hash == run_of(strategy=strategy).hash


def test_every_published_method_says_what_it_is():
    for name in METHODS.ours:
        assert settings_of(name)
        assert method_class(name).paper


def test_what_is_given_wins_over_the_method(mine):
    assert run_of(method="mine").strategy_options == "micro=margin"
    assert run_of(method="mine").momentum == 0.5
    assert run_of(method="mine", strategy_options="micro=entropy").strategy_options == ""
    other = run_of(method="mine", strategy="badge")  # the options of LoGo are not BADGE's
    assert (other.strategy, other.strategy_options, other.momentum) == ("badge", "", 0.5)


def test_flags_win_over_a_file_and_a_method_over_its_parts_there(mine):
    file = 'dataset = "digits"\nstrategy = "badge"\nselector = "local"\nmomentum = 0.1\nfl_rounds = 3'
    e = Experiment.from_toml(file, method="mine")
    assert (e.strategy, e.selector, e.momentum, e.fl_rounds) == ("logo", "both", 0.5, 3)
    assert Experiment.from_toml(file + '\nmethod = "logo"').strategy == "badge"  # one file: its strategy wins
    assert merge({"method": "logo", "seed": 3}, {"method": "mine"}) == {"seed": 3, "method": "mine"}


def test_what_is_written_has_the_settings_and_no_method(mine):
    e = run_of(method="mine")
    assert Experiment.from_toml(e.to_toml()) == e
    assert "method" not in {line.split(" ")[0] for line in e.to_toml().splitlines()}


def test_a_grid_of_methods(mine):
    made = expand({"dataset": "digits", "method": ["mine", "entropy"], "selector": ["global", "local"]})
    assert [(e.strategy, e.selector, e.strategy_options) for e in made] == [
        ("logo", "both", "micro=margin"),
        ("entropy", "global", ""),
        ("entropy", "local", ""),
    ]
    (both,) = expand({"dataset": "digits", "method": ["mine", "logo"], "momentum": 0.9, "strategy": "random"})
    assert both.strategy == "random"


def test_an_unknown_method_is_named_with_those_there_are():
    with pytest.raises(ConfigurationError, match=r"method: 'lgo' was given.*kafal.*did you mean 'logo'"):
        run_of(method="lgo")


def test_without_a_method_nothing_changes():
    assert with_method({"seed": 3}) == {"seed": 3}
    assert all(settings_of(name)["strategy"] == name for name in STRATEGIES if name not in METHODS)

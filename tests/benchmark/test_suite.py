"""Suites: what is read from a file, and which experiments come of it."""

from __future__ import annotations

import pytest

from fedactive.benchmark.suite import PUBLISHED, Entry, find_suite, read_suite, shipped_suites
from fedactive.errors import ConfigurationError
from fedactive.methods import method_class

OWN = """
question = "Which is best here?"
methods = ["random", "entropy selector=local"]
seeds = [3, 5]

[settings]
dataset = "digits"
alpha = [0.1, 1.0]
"""


@pytest.mark.parametrize("name", ["yardstick", "paper", "medical", "smoke"])
def test_what_is_shipped_makes_experiments(name):
    suite = find_suite(name)
    made = suite.experiments(data_dir="nowhere")
    assert len(made) == len(suite.places()) * len(suite.methods) * 4
    assert len({e.name for e in made}) == len(made)
    assert {e.partition for e in made} == {"reference"}


def test_all_that_is_shipped_is_known_by_name():
    assert shipped_suites() == ["few-labels", "medical", "paper", "smoke", "yardstick"]
    for name in shipped_suites():
        for entry in find_suite(name).entries:
            assert method_class(entry.method)
    assert len(set(PUBLISHED)) == len(PUBLISHED)


def test_the_yardstick_goes_to_45_percent():
    e = find_suite("yardstick").experiments()[0]
    assert (e.dataset, e.clients, e.alpha, e.rho, e.budget, e.rounds) == ("cifar10", 10, 0.1, 20, 5, 9)


def test_few_labels_are_those_of_the_results():
    """Its runs count for the document of few labels, too: the same settings, in float32, as CPUs like heads."""
    few = find_suite("few-labels").experiments()
    assert {(e.budget, e.rounds, e.fl_rounds, e.model) for e in few} == {
        ("5+5+10+30+50+150/client", 6, 50, "linear")
    }
    first = {e.strategy: e.first for e in few}
    assert (first["random"], first["maxherding"], first["ksas"]) == ("random", "maxherding", "typiclust")


def test_one_of_the_users_own_is_a_file(tmp_path):
    (tmp_path / "mine.toml").write_text(OWN)
    suite = find_suite(str(tmp_path / "mine.toml"))
    assert suite.name == "mine"
    assert list(suite.places()) == ["alpha 0.1", "alpha 1"]
    made = [(e.seed, e.alpha, e.strategy, e.selector) for e in suite.experiments(fl_rounds=2)]
    assert made[:4] == [
        (3, 0.1, "random", "none"),
        (3, 0.1, "entropy", "local"),
        (3, 1.0, "random", "none"),
        (3, 1.0, "entropy", "local"),
    ]
    assert len(made) == 8


def test_other_methods_and_more_seeds():
    suite = read_suite("own", OWN)
    assert suite.of(["logo"], ["badge", "logo"]).methods == ("logo", "badge")
    assert suite.of(besides=["logo"]).methods == ("random", "entropy selector=local", "logo")
    assert [suite.of(seeds=n).seeds for n in (None, 1, 4)] == [(3, 5), (3,), (3, 5, 6, 7)]


def test_variants_are_settings_that_go_together():
    text = (
        OWN + '[[variants]]\nbudget = "2/client"\nrounds = 3\n[[variants]]\nbudget = "9/client"\nrounds = 2\n'
    )
    places = read_suite("own", text).places()
    assert next(iter(places)) == "alpha 0.1, budget 2/client"
    assert [place["rounds"] for place in places.values()] == [3, 3, 2, 2]


def test_a_row_says_how_it_is_changed():
    assert Entry.read("entropy selector=local").label == "entropy (local)"
    assert Entry.read("kafal objective=cross_entropy").label == "kafal (objective=cross_entropy)"
    e = Entry.read("kafal objective=cross_entropy").experiment({"dataset": "digits"})
    assert (e.strategy, e.objective) == ("ksas", "cross_entropy")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            'question = "Which is best here?"',
            "suite own: question: 'nothing' was given, allowed is what it asks",
        ),
        ("seeds = [3, 5]", None),
        ('methods = ["random", "entropy selector=local"]', None),
    ],
)
def test_what_may_be_left_out(change, sentence):
    text = OWN.replace(change, "")
    if sentence is None:
        assert read_suite("own", text).settings
    else:
        with pytest.raises(ConfigurationError, match=sentence):
            read_suite("own", text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "seed = 1\n" + OWN,
            "suite own: 'seed' was given, allowed is one of methods, metrics, question, seeds",
        ),
        (OWN.replace("[3, 5]", "3"), "suite own: seeds: 3 was given, allowed is a list of seeds"),
        (OWN.replace("[3, 5]", "[]"), "suite own: seeds"),
        (OWN.replace("[3, 5]", '["3"]'), "suite own: seeds: '3' was given, allowed is a whole number"),
        (OWN.replace("seeds", "metrics = [[]]\nseeds"), r"suite own: metrics: \[\] was given"),
        (OWN + "rho = []", r"suite own: rho: \[\] was given, allowed is a value, or a list of one or more"),
        (OWN + 'strategy = "logo"', "suite own: strategy: 'logo' was given, allowed is none here"),
        (OWN.replace("seeds", 'metrics = ["f1"]\nseeds'), "suite own: metrics: 'f1' was given"),
    ],
)
def test_mistakes_are_one_sentence(text, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        read_suite("own", text)


def test_a_suite_that_is_not_there():
    with pytest.raises(ConfigurationError, match="did you mean 'yardstick'"):
        find_suite("yardstik")
    for text in ("entropy local", "", "entropy selector="):
        with pytest.raises(ConfigurationError, match="methods: '"):
            Entry.read(text)

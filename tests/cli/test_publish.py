"""`fedactive table` and `fedactive figure`, on runs that were stored."""

import pytest

from fedactive.analysis import figures
from fedactive.analysis.palette import style_of
from fedactive.analysis.table_forms import FORMS
from fedactive.cli import publish
from fedactive.experiment import Experiment
from fedactive.record.export import export
from fedactive.record.schema import METRICS
from support.commands import cli

DESCRIBED = "Over 4 seeds (1 to 4) in 2 settings, logo has the highest mean accuracy"


@pytest.fixture(scope="module")
def grid(store, tmp_path_factory):
    """LoGo and Random on digits with two alphas and four seeds."""
    runs = tmp_path_factory.mktemp("grid")
    for strategy, gain in (("logo", 0.1), ("random", 0.0)):
        for alpha in (0.1, 1.0):
            for seed in (1, 2, 3, 4):
                e = Experiment(
                    dataset="digits", strategy=strategy, alpha=alpha, seed=seed, rounds=3, runs_dir=runs
                )
                end = 0.6 + gain + 0.011 * seed + gain * 0.03 * (seed % 2)
                store(e, [0.5 + 0.01 * seed, end, end + 0.1], [[[0, 1, 2], [seed, 3, 3]]] * 3)
    return runs


def test_names_of_options_are_those_of_the_code():
    assert set(publish.METRICS) == set(METRICS)
    assert set(publish.KINDS) == set(figures.DRAW)
    assert set(publish.FORMATS) == set(FORMS)


def test_the_ending_says_which_table(grid, tmp_path):
    done = cli("table", grid, "--at", "6,9", "-o", tmp_path / "table.tex")
    assert done.returncode == 0, done.stderr
    assert DESCRIBED in done.stdout
    assert done.stderr == ""
    text = (tmp_path / "table.tex").read_text()
    assert r"\emph{alpha 0.1}" in text
    assert r"strategy & 6\% & 9\% \\" in text
    assert DESCRIBED in text


def test_runs_are_chosen_and_what_is_compared(grid, tmp_path):
    export([grid], tmp_path / "runs.parquet")
    chosen = cli("table", tmp_path / "runs.parquet", "--where", "alpha=1", "--where", "seed=1,2")
    assert "| logo | 51.5 ± 0.7 |" in chosen.stdout
    assert "alpha" not in chosen.stdout
    assert "over 2 seeds (1, 2)" in chosen.stdout
    assert "warning: with fewer than four seeds hardly any difference can be significant" in chosen.stderr
    by_alpha = cli("table", grid, "--by", "alpha", "--format", "csv")
    assert ",logo (alpha 0.1),1," in by_alpha.stdout
    assert "Over 4 seeds" in by_alpha.stderr  # the table on standard output is CSV and nothing else


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["curves"],
            ["alpha 0.1", "alpha 1.0", "bands: from the lowest to the highest seed", "test accuracy (%)"],
        ),
        (["curves", "--metric", "macro_f1"], ["test macro F1 (%)"]),
        (["ranks"], ["4 comparisons (settings × budgets), 4 seeds (1 to 4)", "critical difference"]),
        (
            ["balance", "--title", "Digits"],
            ["Digits: alpha 1.0: labels of all clients together", "4 seeds (1 to 4)"],
        ),
        (["cost", "--where", "alpha=1"], ["scoring", "seconds of AL rounds 2 to 3", "4 seeds (1 to 4)"]),
    ],
)
def test_pictures(grid, tmp_path, words, said):
    done = cli("figure", grid, *words, "-o", tmp_path / "picture.svg")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "picture.svg").read_text()
    assert all(words in text for words in said)
    if words[0] != "cost":
        assert all(style_of(name).colour.lower() in text for name in ("logo", "random"))


@pytest.mark.parametrize("kind", ["pdf", "png"])
def test_kinds_of_files(grid, tmp_path, kind):
    done = cli("figure", grid, "curves", "-o", tmp_path / f"picture.{kind}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"picture.{kind}").read_bytes().startswith({"pdf": b"%PDF", "png": b"\x89PNG"}[kind])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["table", "--format", "word"],
            2,
            "format: 'word' was given, allowed is one of csv, latex, markdown",
        ),
        (["table", "--at", "much"], 2, "budgets separated by commas"),
        (["table", "--where", "alpha"], 2, "as in dataset=svhn,cifar10"),
        (["table", "--where", "alfa=1"], 2, "did you mean 'alpha'"),
        (["table", "--by", "alfa"], 2, "did you mean 'alpha'"),
        (["table", "--where", "alpha=5"], 1, "none of the 16 finished runs has alpha=5"),
        (["table", "--metric", "speed"], 2, "metric: 'speed' was given, allowed is one of accuracy"),
        (["figure", "curve", "-o", "x.svg"], 2, "did you mean 'curves'"),
        (["figure", "cost", "--metric", "loss", "-o", "x.svg"], 2, "curves or ranks, with --metric"),
        (["figure", "curves", "-o", "x.doc"], 2, "a picture: "),
    ],
)
def test_mistakes_are_one_sentence(grid, words, code, said):
    done = cli(words[0], grid, *words[1:])
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert said in done.stderr


def test_ranks_need_two_strategies(grid):
    done = cli("figure", grid, "ranks", "--where", "strategy=logo", "-o", "x.svg")
    assert done.returncode == 1
    assert "there are no ranks to draw" in done.stderr

"""What is said of methods, from points made up so that it can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedactive.benchmark.published import beside_published
from fedactive.benchmark.sections import as_latex, as_markdown, sections_of
from fedactive.benchmark.suite import Suite
from fedactive.benchmark.verdict import Verdict

SUITE = Suite(
    "made-up", "Which?", {"dataset": ["a", "b"]}, methods=("random", "good", "close", "bad", "none")
)
CLOSE = {1: 0.9, 2: -1.1, 3: 0.4, 4: -0.3}  # over random, by seed: nothing
START = {"a": 50.0, "b": 70.0}


def points(settings="ab", seeds=(1, 2, 3, 4), suite=SUITE, **leads):
    """Random gains 10 points a round; `leads` are what others have above it, from AL round 2."""
    rows = [
        {
            "setting": setting,
            "method": method,
            "seed": seed,
            "al_round": r,
            "labelled": 5.0 * r,
            "unit": "%",
            "complete": True,
            "seconds": 0.0 if r == 1 else 2.0,
            "hardware": "a machine",
            "accuracy": START[setting] + 10 * (r - 1) + (r > 1) * lead(seed) + 0.01 * seed,
        }
        for setting in settings
        for method, lead in leads.items()
        for seed in seeds
        for r in (1, 2, 3)
    ]
    return Verdict(suite, pd.DataFrame(rows))


@pytest.fixture
def verdict():
    return points(
        random=lambda seed: 0.0,
        good=lambda seed: 5 + 0.01 * seed,
        close=CLOSE.get,
        bad=lambda seed: -5 + 0.02 * seed,
    )


def test_who_is_better_and_worse(verdict):
    assert verdict.methods == ["good", "random", "close", "bad"]  # by mean rank: 1, 2.5 - 2.25 ..., 4
    assert verdict.standing("good") == (["random", "close", "bad"], [], [])
    assert verdict.standing("close") == (["bad"], ["good"], ["random"])
    assert verdict.sentence("close") == (
        "close, rank 3.0 of 4: better than bad; worse than good; "
        "undecided with 4 seeds in 2 settings against random."
    )
    assert verdict.sentence("none") == "none has no runs yet."
    assert verdict.absent == ["none"]


def test_one_seed_decides_nothing():
    one = points("a", seeds=(1,), random=lambda seed: 0.0, good=lambda seed: 9.0)
    assert one.sentence("good") == "good, rank 1.0 of 2: undecided with 1 seed against random."


def test_runs_that_are_not_at_the_end_are_not_judged():
    verdict = points("a", random=lambda seed: 0.0, good=lambda seed: 9.0)
    verdict.points.loc[verdict.points["method"] == "good", "complete"] = False
    assert verdict.sentence("good").startswith("good has no run to the end of the suite yet")
    assert verdict.standing("random") == ([], [], ["good"])


def test_means_are_over_settings_that_all_have():
    verdict = points(random=lambda seed: 0.0, good=lambda seed: 1.0)
    there = (verdict.points["method"] == "good") & (verdict.points["setting"] == "b")
    only = Verdict(SUITE, verdict.points[~there])
    assert only.shared_settings == ["a"]
    assert only.mean_areas["random"] == pytest.approx(60 + 0.025)
    assert only.ranks.comparisons == 2


def test_means_are_over_seeds_that_all_have():
    """Seed 4 is bad for everybody: who lacks it is no better for that."""
    hard = {4: -8.0}
    verdict = points("a", random=lambda seed: hard.get(seed, 0.0), good=lambda seed: 1 + hard.get(seed, 0.0))
    assert verdict.ranks.means.to_dict() == {"good": 1, "random": 2}
    there = (verdict.points["method"] == "random") & (verdict.points["seed"] == 4)
    fewer = Verdict(SUITE, verdict.points[~there])
    assert fewer.ranks.means.to_dict() == {"good": 1, "random": 2}
    assert fewer.mean_areas["good"] == pytest.approx(60 + 0.75 + 0.02)
    assert fewer.needed_by_random().loc["good", "a"][2] == pytest.approx(10.5, abs=0.01)  # 61 of 60 to 70
    assert "leave out seeds that not all have" in as_markdown(sections_of(fewer))
    assert "leave out seeds" not in as_markdown(sections_of(verdict))


def test_settings_weigh_the_same_and_equal_ranks_are_ordered_by_the_mean(verdict):
    assert verdict.mean_areas["random"] == pytest.approx((60 + 80) / 2 + 0.025)
    tied = points(random=lambda seed: 0.0, good=lambda seed: 9.0)
    lost = (tied.points["method"] == "good") & (tied.points["setting"] == "b")
    tied.points.loc[lost, "accuracy"] -= 10  # better by 9 in one setting, worse by 1 in the other
    assert tied.ranks.means.tolist() == [1.5, 1.5]
    assert tied.methods == ["good", "random"]


def test_methods_are_ordered_by_rank_and_not_by_the_mean():
    verdict = points(random=lambda seed: 0.0, good=lambda seed: 1.0)
    once = verdict.points.eval("method == 'good' and setting == 'b' and al_round == 3")
    verdict.points.loc[once, "accuracy"] -= 50
    assert verdict.mean_areas["good"] < verdict.mean_areas["random"]
    assert verdict.methods == ["good", "random"]  # better in three comparisons of four


def test_without_a_comparison_there_are_means_and_no_ranks():
    """One method has runs in another setting only, and none is at its end."""
    apart = points(random=lambda seed: 0.0, good=lambda seed: 9.0, bad=lambda seed: -9.0)
    bad = apart.points["method"] == "bad"
    apart = Verdict(SUITE, apart.points[bad == (apart.points["setting"] == "b")].assign(complete=~bad))
    assert apart.ranks.comparisons == 0
    assert apart.methods == ["good", "random", "bad"]
    assert apart.sentence("good").startswith("good: ")
    alone = points("a", random=lambda seed: 0.0)
    assert not alone.ranked
    assert alone.sentence("random") == "random is alone: there is no other method with runs."


def test_a_method_is_judged_by_its_own_runs_even_in_one_comparison():
    verdict = points("a", random=lambda seed: 0.0, close=CLOSE.get)
    ours = (verdict.points["method"] == "random") | (verdict.points["seed"] < 4)
    few = Verdict(SUITE, verdict.points[ours & (verdict.points["al_round"] < 3)])
    assert few.sentence("close") == "close, rank 1.0 of 2: undecided with 3 seeds against random."


def test_labels_that_random_would_need(verdict):
    needed = verdict.needed_by_random()
    good = needed.loc["good", "a"]
    assert good[2] == pytest.approx(12.5, abs=0.05)  # 65 is half-way from 60 to 70
    assert good[3] == np.inf
    assert needed.loc["bad", "b"][3] == pytest.approx(12.5, abs=0.05)
    assert "random" not in needed.index.get_level_values("method")
    assert list(needed.columns) == [2, 3]
    two = points("ba", random=lambda seed: 0.0, good=lambda seed: 5.0)
    needed = two.needed_by_random()
    assert list(needed.index) == [("good", "b"), ("good", "a")]
    assert needed[2].tolist() == pytest.approx([12.5, 12.5])


def test_cost_is_of_rounds_with_a_query(verdict):
    verdict.points.loc[verdict.points["al_round"] == 3, "seconds"] = 4.0
    assert verdict.cost().to_dict() == dict.fromkeys(["random", "good", "close", "bad"], 3.0)


def test_sections_say_it_in_markdown_and_latex(verdict):
    sections = sections_of(verdict)
    text, latex = as_markdown(sections), as_latex(sections)
    assert "| good | 1.00 |" in text
    assert "| method | 5% | 10% | 15% |" in text
    assert "| good | 12.5% | more than 15% |" in text
    assert "5 of 6 pairs are decided" in text
    assert "No runs yet: none." in text
    assert r"\caption{accuracy (\%): a. Mean $\pm$ standard deviation over 4 seeds.}" in latex
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == len(sections)
    assert len(dict.fromkeys(section.title for section in sections)) == len(sections)


def test_nothing_decided_is_said_without_a_table():
    one = points("a", seeds=(1,), random=lambda seed: 0.0, good=lambda seed: 9.0)
    text = as_markdown(sections_of(one))
    assert "0 of 0 pairs are decided" in text
    assert "Mean ± standard deviation over 1 seed." in text


def test_published_numbers_stand_beside_ours():
    suite = Suite("yardstick", "Which?", {"dataset": "a"}, methods=("random", "logo"))
    verdict = points("a", suite=suite, random=lambda seed: 0.0, logo=lambda seed: 2.0)
    verdict.points["labelled"] *= 3
    table = beside_published(verdict).set_index("method")
    assert table.loc["random", "published"] == "55.70"
    assert table.loc["random", "difference"] == "**+14.33**"  # 70.025
    s = verdict.points.groupby(["method", "al_round"])["accuracy"].std().pow(2).mean() ** 0.5
    assert table.loc["random", "limit"] == f"±{1.96 * s * (2 / 4) ** 0.5:.2f}"
    assert table.loc["kafal", "ours"] == ""
    assert beside_published(points("a", random=lambda seed: 0.0)).empty
    one_seed = replace(verdict, points=verdict.points[verdict.points["seed"] == 1])
    alone = beside_published(one_seed).set_index("method").loc["random"]
    assert alone["limit"] == ""
    assert "*" not in alone["difference"]

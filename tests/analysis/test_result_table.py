"""The table of a paper and its sentence, from numbers small enough to check by hand."""

import pandas as pd
import pytest

from fedactive.analysis.quotable import significance_sentence
from fedactive.analysis.result_table import result_tables
from fedactive.analysis.table_forms import as_csv, as_latex, as_markdown
from fedactive.errors import ConfigurationError, RunError
from support.curve_tables import table

EQUAL = [50.0, 51.0, 52.0, 53.0]  # AL round 1 is the same for all
GOOD = [70.0, 71.1, 72.0, 73.1]
CLOSE = [70.5, 70.0, 72.4, 72.0]
BAD = [60.0, 61.0, 62.1, 63.0]


def curves(setting="", seeds=4, **strategies):
    made = table(setting, **{name: [own[:seeds] for own in rounds] for name, rounds in strategies.items()})
    return made.assign(labels=made["labelled"] * 10, loss=100 - made["accuracy"], counted=False)


@pytest.fixture
def three():
    return curves(good=[EQUAL, GOOD], close=[EQUAL, CLOSE], bad=[EQUAL, BAD])


def test_the_best_and_what_is_not_worse_are_marked(three):
    (made,) = result_tables(three)
    marks = made.cells.set_index(["strategy", "al_round"])["mark"].to_dict()
    assert {marks[name, 1] for name in ("good", "close", "bad")} == {""}  # all are equal there
    assert (marks["good", 2], marks["close", 2], marks["bad", 2]) == ("best", "near", "")
    text = as_markdown([made])
    assert "| strategy | 5% | 10% |\n" in text
    assert "| good | 51.5 ± 1.3 | **71.5 ± 1.3** |\n| close | 51.5 ± 1.3 | *71.2 ± 1.2* |\n| bad |" in text
    assert "mean ± standard deviation over 4 seeds (1 to 4). Bold: best of its column; italic: not" in text


def test_latex_marks_and_escapes(three):
    text = as_latex(result_tables(three.assign(strategy=three["strategy"].replace("bad", "bad_one"))))
    assert r"good & 51.5 $\pm$ 1.3 & \textbf{71.5 $\pm$ 1.3} \\" in text
    assert r"close & 51.5 $\pm$ 1.3 & \underline{71.2 $\pm$ 1.2} \\" in text
    assert r"bad\_one &" in text
    assert r"strategy & 5\% & 10\% \\" in text
    assert text.count(r"\begin{tabular}{lrr}") == text.count(r"\end{table}") == 1


def test_csv_has_every_number(three, tmp_path):
    (tmp_path / "table.csv").write_text(as_csv(result_tables(three)))
    rows = pd.read_csv(tmp_path / "table.csv").set_index(["strategy", "al_round"])
    assert rows.loc[("bad", 2), "mean"] == pytest.approx(sum(BAD) / 4)
    assert rows.loc[("good", 2), ["labelled", "labels", "seeds", "mark"]].tolist() == [10.0, 100.0, 4, "best"]


def test_the_sentence_says_what_is_significant(three):
    (made,) = result_tables(three, budgets=[10])
    sentence = significance_sentence(made.curves)
    assert sentence.startswith(
        "Over 4 seeds (1 to 4), good has the highest mean accuracy at 10% labelled (71.5%); "
        "it is significantly better than bad (p < 0.001), and it is not shown to differ from close ("
    )
    assert sentence.endswith("(exact paired t-tests by seed, Holm's correction for all 3 pairs, 5% level).")


def test_few_seeds_are_told():
    (made,) = result_tables(curves(seeds=2, good=[EQUAL, GOOD], bad=[EQUAL, BAD]))
    assert "with fewer than four seeds hardly any difference can be significant." in significance_sentence(
        made.curves
    )
    (one,) = result_tables(curves(seeds=1, good=[EQUAL, GOOD], bad=[EQUAL, BAD]))
    assert "no two strategies have the seeds in common that a test needs" in significance_sentence(one.curves)
    assert set(one.cells["mark"]) == {"", "best"}
    assert "±" not in as_markdown([one]).split("\n\n")[0]


def test_settings_are_groups_of_rows_and_are_judged_together():
    both = pd.concat(
        [
            curves("alpha 1", good=[EQUAL, GOOD], bad=[EQUAL, BAD]),
            curves("alpha 9", good=[EQUAL, GOOD], bad=[EQUAL, BAD], extra=[EQUAL, CLOSE]),
        ]
    )
    (made,) = result_tables(both)
    text = as_markdown([made])
    assert text.index("| *alpha 1* |") < text.index("| *alpha 9* |") < text.index("| extra |")
    assert "Over 4 seeds (1 to 4) in 2 settings, good has" in text
    assert "extra" not in significance_sentence(made.curves)  # it was not run in both
    other = curves("alpha 5", good=[EQUAL]).assign(labelled=7.0, labels=70.0)
    assert len(result_tables(pd.concat([both, other]))) == 2  # its budgets are others


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (
            ("one", "two"),
            ("three", "four"),
            "No strategy was run in all 2 settings, so none can be called the best; they are compared in the settings that they share.",
        ),
        (
            ("one", "two"),
            ("one",),
            "Only one was run in all 2 settings, so none can be called the best; they are compared in the settings that they share.",
        ),
        (("one",), ("two",), "No strategy was run in all 2 settings, so no two can be compared."),
        (("one",), ("one",), "Only one was run in all 2 settings, so no two can be compared."),
    ],
)
def test_where_no_two_have_all_settings_in_common_none_is_called_the_best(first, second, sentence):
    parts = [
        curves(f"alpha {k}", **{name: [EQUAL, GOOD] for name in names})
        for k, names in enumerate((first, second))
    ]
    assert significance_sentence(pd.concat(parts)) == sentence


def test_a_run_counts_as_far_as_all_have_got():
    (made,) = result_tables(curves(good=[EQUAL, BAD], longer=[EQUAL, GOOD, [99.0] * 4]))
    assert "longer has the highest mean accuracy from 5% to 10% labelled (61.5%)" in significance_sentence(
        made.curves
    )


def test_where_less_is_better_the_least_is_best(three):
    (made,) = result_tables(three, "loss", [10])
    marks = made.cells.set_index("strategy")["mark"].to_dict()
    assert (marks["good"], marks["bad"]) == ("best", "")
    assert "good has the lowest mean loss at 10% labelled (28.450)" in significance_sentence(
        made.curves, "loss"
    )


def test_budgets_and_metrics_that_are_not_there(three):
    with pytest.raises(ConfigurationError, match="some of 5%, 10%"):
        result_tables(three, budgets=[50])
    with pytest.raises(RunError, match="the loss of these runs is not known"):
        result_tables(three.assign(loss=float("nan")), "loss")

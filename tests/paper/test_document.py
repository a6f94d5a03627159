"""Tables in a document say what the results say."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fedactive.cli.paper import app
from fedactive.errors import UserError
from fedactive.paper.document import fill
from fedactive.paper.reproduce import experiments
from fedactive.record.export import export
from support.run_folders import runs_of

EMPTY = """# Results

Before.
<!-- table: accuracy datasets=cifar10 until=20 -->
<!-- end -->
After.
"""


@pytest.fixture
def results(store, runs, tmp_path):
    for e in experiments("accuracy", seeds=[1, 2], datasets=["cifar10"], strategies=["logo"], runs_dir=runs):
        store(replace(e, rounds=4), [0.5, 0.6, 0.62, 0.64 + e.seed / 100])
    export([runs], tmp_path / "results")
    return tmp_path / "results"


def test_a_table_is_written_and_then_true(results, tmp_path):
    path = tmp_path / "REPRODUCTION.md"
    path.write_text(EMPTY)
    wrong = CliRunner().invoke(app, ["document", str(path), "--from", str(results), "--check"])
    assert isinstance(wrong.exception, UserError)
    assert "does not say what" in str(wrong.exception)
    assert path.read_text() == EMPTY
    assert CliRunner().invoke(app, ["document", str(path), "--from", str(results)]).exit_code == 0
    text = path.read_text()
    assert text.startswith("# Results\n\nBefore.\n<!-- table")
    assert text.endswith("<!-- end -->\nAfter.\n")
    assert "| strategy | selector | 20% paper | 20% ours | 20% difference |\n" in text
    assert "| logo | both | 66.50 | 65.50 ± 0.71 (2) | -1.00 |\n" in text  # ours: 65 and 66
    assert CliRunner().invoke(app, ["document", str(path), "--from", str(results), "--check"]).exit_code == 0
    path.write_text(text.replace("65.50 ±", "66.50 ±"))
    assert CliRunner().invoke(app, ["document", str(path), "--from", str(results), "--check"]).exit_code == 1


def test_a_setting_without_printed_numbers_has_ours_alone(results):
    runs = runs_of(results)
    text = fill("<!-- setting: 1 until=15 -->\n<!-- end -->", runs)
    assert "| strategy | 5% | 10% | 15% |\n" in text
    assert "| logo | 50.00 ± 0.00 (2) | 60.00 ± 0.00 (2) | 62.00 ± 0.00 (2) |\n" in text
    for mistake, sentence in (
        ("99", "the number of a setting is missing, 1 to 38"),
        ("1 datasets=svhn", "unknown option datasets"),
    ):
        with pytest.raises(UserError, match=sentence):
            fill(f"<!-- setting: {mistake} -->\n<!-- end -->", runs)


def test_a_table_of_some_strategies_and_of_the_released_code_s_head(store, runs):
    of_alfamix = {"datasets": ["cifar10"], "strategies": ["alfamix"], "seeds": [1], "runs_dir": runs}
    for head, accuracy in (("own", 0.65), ("global", 0.64)):
        for e in experiments("accuracy", alfamix_head=head, **of_alfamix):
            if e.selector == "local":
                store(replace(e, rounds=4), [0.5, 0.6, 0.62, accuracy])
    begin = "<!-- table: accuracy datasets=cifar10 strategies=alfamix"
    found = runs_of(runs)
    assert "| local | 64.14 | 65.00 (1) | +0.86 |\n" in fill(f"{begin} -->\n<!-- end -->", found)
    text = fill(f"{begin} alfamix_head=global -->\n<!-- end -->", found)
    assert "| selector | 20% paper |" in text
    assert "| local | 64.14 | 64.00 (1) | -0.14 |\n" in text


def test_the_first_seeds_alone(results):
    runs = runs_of(results)
    text = fill("<!-- table: accuracy datasets=cifar10 seeds=1 -->\n<!-- end -->", runs)
    assert "| logo | both | 66.50 | 65.00 (1) | -1.50 |\n" in text
    assert "| logo | 50.00 (1) |" in fill("<!-- setting: 1 seeds=1 -->\n<!-- end -->", runs)
    assert "no runs to judge by" in fill("<!-- claims: seeds=1 -->\n<!-- end -->", runs)  # of LoGo alone


def test_a_table_of_one_row_names_its_strategy(results):
    text = fill("<!-- table: ensembles strategies=logo datasets=cifar10 -->\n<!-- end -->", runs_of(results))
    assert "| logo | 66.50 | 65.50 ± 0.71 (2) | -1.00 |\n" in text


def test_without_a_document_or_runs_nothing_is_written(tmp_path):
    path = tmp_path / "REPRODUCTION.md"
    missing = CliRunner().invoke(app, ["document", str(path)])
    assert missing.exit_code == 2
    assert "does not exist" in missing.stderr
    path.write_text(EMPTY)
    empty = CliRunner().invoke(app, ["document", str(path), "--from", str(tmp_path)])
    assert str(empty.exception) == f"there are no runs in {tmp_path}"
    assert path.read_text() == EMPTY


def test_mistakes_are_one_sentence(results):
    runs = list(runs_of(results))
    with pytest.raises(UserError, match="no '<!-- table"):
        fill("nothing here", runs)
    with pytest.raises(UserError, match="<!-- table: accuracy seed=2 -->: unknown option seed; allowed"):
        fill("<!-- table: accuracy seed=2 -->\n<!-- end -->", runs)
    for until in ("twenty", "nan", "-5"):
        with pytest.raises(UserError, match=f"until is a positive number, not '{until}'"):
            fill(f"<!-- claims: until={until} -->\n<!-- end -->", runs)
    for seeds in ("0", "5-4", "-3", "some"):
        with pytest.raises(
            UserError, match=f"seeds: '{seeds}' was given, allowed is how many, as in 4, or from"
        ):
            fill(f"<!-- table: accuracy seeds={seeds} -->\n<!-- end -->", runs)
    with pytest.raises(UserError, match=r"until: 3\.0 was given, allowed is at least 5"):
        fill("<!-- setting: 1 until=3 -->\n<!-- end -->", runs)
    with pytest.raises(UserError, match="was given, allowed is at least 20"):
        fill("<!-- claims: until=10 -->\n<!-- end -->", runs)
    with pytest.raises(UserError, match="table: '' was given"):
        fill("<!-- table: -->\n<!-- end -->", runs)
    with pytest.raises(UserError, match="one without an end among"):
        fill("<!-- table: emd -->\nProse to keep.\n" + EMPTY, runs)


def test_runs_in_several_precisions_need_a_choice(store, runs, small):
    made = experiments("accuracy", seeds=[1], datasets=["cifar10"], strategies=["logo"], runs_dir=runs)
    (bf16,) = (replace(e, precision="bf16", rounds=4) for e in made)
    store(bf16, [0.6] * 4)
    store(small(runs_dir=runs, rounds=1), [0.5])  # no dataset of the paper's, so no reason to ask
    store(replace(bf16, precision="tf32", budget="5/client", rounds=1), [0.5])  # nor of its budgets
    begin = "<!-- table: accuracy datasets=cifar10"
    assert "60.00 (1)" in fill(f"{begin} -->\n<!-- end -->", runs_of(runs))
    store(replace(bf16, precision="fp32"), [0.7] * 4)
    with pytest.raises(UserError, match="there are runs in bf16 and fp32; say which, as in precision=bf16"):
        fill(f"{begin} -->\n<!-- end -->", runs_of(runs))
    assert "70.00 (1)" in fill(f"{begin} precision=fp32 -->\n<!-- end -->", runs_of(runs))


def test_a_row_for_each_strategy_and_what_is_off_in_bold(store, runs):
    for e in experiments("accuracy", seeds=[1, 2], datasets=["cifar10"], strategies=["badge"], runs_dir=runs):
        off = 0.01 * (2 * e.seed - 3)  # either mean has a variance of 2 over its seeds: the limit is 2.40
        if e.selector == "local":  # 20%: the paper's; 40%: +2.52
            store(replace(e, rounds=8), [0.5] * 3 + [0.6632 + off] + [0.5] * 3 + [0.738 + off])
        else:
            store(replace(e, rounds=4), [0.5] * 3 + [0.65 + off])
    text = fill("<!-- table: accuracy datasets=cifar10 -->\n<!-- end -->", runs_of(runs))
    head, _, *rows, empty, sentence = text.splitlines()[1:-1]
    assert head.count("%") == 6  # nothing has reached 60%
    assert rows == [
        "| badge | global | 65.12 | 65.00 ± 1.41 (2) | -0.12 |  |  |  |",
        "| badge | local | 66.32 | 66.32 ± 1.41 (2) | +0.00 | 71.28 | 73.80 ± 1.41 (2) | **+2.52** |",
    ]
    assert not empty
    assert sentence == (
        "2 of 3 numbers lie within the limits of agreement (±2.40); the mean difference is +0.80."
    )


def test_emd_has_three_digits_and_only_the_columns_that_tell_rows_apart(store, runs):
    e = next(e for e in experiments("emd", seeds=[1], runs_dir=runs) if (e.rho, e.alpha) == (5, float("inf")))
    store(e, [0.5], labels=[[[0], list(range(10))]])
    text = fill("<!-- table: emd -->\n<!-- end -->", runs_of(runs))
    assert "| rho | alpha | selector | measure | 10% paper | 10% ours | 10% difference |" in text
    assert "| 5 | inf | global | local_emd | 0.213 | 0.450 (1) | +0.237 |" in text
    assert "| 5 | inf | global | global_emd | 0.206 | 0.082 (1) | -0.124 |" in text
    assert "The mean distance from the paper's numbers is 0.1806." in text


@pytest.mark.parametrize("name", ["cost", "observation", "penalty"])
def test_without_runs_a_table_says_so(name):
    text = fill(f"<!-- table: {name} -->\n<!-- end -->", [])
    assert text == f"<!-- table: {name} -->\nThere are no runs of this table.\n<!-- end -->"

"""`fedactive paper` as a user calls it."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedactive.cli.paper import app
from fedactive.errors import ConfigurationError, UserError
from fedactive.paper.reproduce import experiments, show
from fedactive.paper.settings import all_settings
from fedactive.sweep import comparison, grid
from support.commands import cli


def paper(*arguments):
    return cli("paper", *arguments)


def test_the_38_settings_are_listed_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = CliRunner().invoke(app, ["settings"]).stdout
    rows = re.findall(r"│ \d+ +│ (?:global|local) +│ \S+ +│ (\w+) +│ (\w+) +│ \d+% +│ \w+ +│\n", shown)
    assert len(rows) == 38
    assert {dataset for dataset, _ in rows} >= {"organamnist", "dermamnist"}
    assert {model for _, model in rows} == {"cnn4", "resnet18", "mobilenet"}


@pytest.mark.parametrize("name", ["accuracy", "emd"])
def test_names_in_a_table_are_never_cut(tmp_path, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "40")
    shown = CliRunner().invoke(app, ["show", name, "--from", str(tmp_path)]).stdout
    assert "…" not in shown
    words = set(shown.split())
    for column in ("dataset", "strategy", "selector"):
        assert set(show(name, [])[column]) <= words


def test_a_table_without_runs_shows_the_papers_numbers(tmp_path):
    done = paper(
        "show",
        "accuracy",
        "--from",
        tmp_path,
        "--datasets",
        "cifar10",
        "--until",
        20,
        "-o",
        tmp_path / "t.csv",
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ logo +both +20 +66\.50 +0", done.stdout, re.MULTILINE)
    table = pd.read_csv(tmp_path / "t.csv")
    assert len(table) == 12
    assert set(table["note"]) == {"no runs"}


def test_runs_made_with_other_settings_are_hinted_at(store, runs):
    (experiment, *_) = experiments(
        "accuracy", datasets=["cifar10"], until=20, precision="bf16", runs_dir=runs
    )
    store(experiment, [0.1, 0.2, 0.3, 0.4])

    def told(table, *options):
        return CliRunner().invoke(app, ["show", table, "--from", str(runs), *options]).stderr

    hint = "there are runs made with --precision bf16: show needs the same\n"
    absent = f"no runs of this table in {runs}; `fedactive paper run algorithms` makes them\n"
    assert told("accuracy") == ""  # all runs that are there share a precision
    assert told("accuracy", "--precision", "bf16") == ""
    assert hint in told("accuracy", "--precision", "tf32")
    assert hint in told("accuracy", "--precision", "bf16", "--fl-rounds", "20")
    assert told("algorithms") == absent  # which has use for no run that is there
    assert told("algorithms", "--precision", "bf16", "--fl-rounds", "20") == absent
    store(replace(experiment, precision="fp32"), [0.1])
    made_with = "there are runs made with --precision bf16 or --precision fp32: show needs the same\n"
    assert made_with in told("accuracy")


def test_runs_of_other_rows_are_no_hint(store, runs):
    (experiment, *_) = experiments(
        "accuracy", datasets=["cifar10"], until=20, schedule="reference", runs_dir=runs
    )
    store(experiment, [0.1, 0.2, 0.3, 0.4])

    def told(*options):
        return CliRunner().invoke(app, ["show", "accuracy", "--from", str(runs), *options]).stderr

    assert "made with --schedule reference" in told("--datasets", "cifar10")
    assert "made with" not in told("--datasets", "svhn")


def test_runs_that_end_too_early_are_told(store, runs):
    (experiment, *_) = experiments("accuracy", datasets=["cifar10"], until=10, runs_dir=runs)
    store(experiment, [0.1, 0.2])
    told = CliRunner().invoke(app, ["show", "accuracy", "--from", str(runs), "--datasets", "cifar10"]).stderr
    assert "end before 20% labelled, where the paper's numbers begin" in told
    assert f" --datasets cifar10 --runs-dir {runs}` without --until prolongs them" in told  # these, no others
    assert "no runs" not in told


def test_the_released_codes_head_is_hinted_at(store, runs):
    for e in experiments(
        "accuracy",
        datasets=["cifar10"],
        strategies=["alfamix"],
        until=20,
        seeds=[1],
        alfamix_head="released",
        runs_dir=runs,
    ):
        if e.selector == "local":
            store(e, [0.1, 0.2, 0.3, 0.4])
    told = CliRunner().invoke(app, ["show", "accuracy", "--from", str(runs)]).stderr
    assert "there are runs made with --alfamix-head released: show needs the same" in told


def test_who_beats_whom_says_over_how_many_settings(store, runs):
    for setting in all_settings()[:2]:
        for name in ("logo", "random", "entropy")[: 4 - setting.number]:
            for seed in (1, 2):
                store(setting.experiment(name, seed=seed, runs_dir=runs), [0.5, 0.5 + len(name) / 100 * seed])
    shown = CliRunner().invoke(app, ["show", "penalty", "--from", str(runs)])
    assert "over 4 of the paper's 38 settings" in " ".join(shown.stdout.split())
    assert "settings with runs of two seeds: random 4, entropy 1, logo 4; compare only" in shown.stderr


@pytest.mark.parametrize(
    ("options", "allowed"),
    [(["bars", "--setting", "3"], "curves"), (["curves", "--category", "budget"], "penalty")],
)
def test_options_of_another_figure_are_refused(runs, tmp_path, options, allowed):
    done = CliRunner().invoke(app, ["figure", *options, "--from", str(runs), "-o", str(tmp_path / "f.svg")])
    assert isinstance(done.exception, ConfigurationError)
    assert f"allowed is {allowed}, with --" in str(done.exception)


def test_a_figure_hints_at_them_too(store, runs, tmp_path):
    made = all_settings()[0].experiment("random", fl_rounds=20, precision="bf16", runs_dir=runs)
    store(made, [0.5])

    def stopped_by(*options):
        command = ["figure", "curves", "-o", str(tmp_path / "x.svg"), "--from", str(runs), *options]
        return str(CliRunner().invoke(app, command).exception)

    hint = "there are runs made with --fl-rounds 20 --precision bf16: figure needs the same"
    assert stopped_by() == (
        f"there are no runs of any of the 38 settings; `fedactive paper run penalty` makes them; {hint}"
    )
    options = ["--fl-rounds", "20", "--precision", "bf16"]
    assert stopped_by(*options, "--setting", "3").endswith("`fedactive paper run penalty` makes them")
    assert stopped_by(*options) == "None"


def test_a_figure_of_the_first_seeds_goes_as_far_as_they_do(store, runs, tmp_path):
    for seed, accuracies in ((1, [0.5, 0.6]), (2, [0.5])):
        store(all_settings()[0].experiment("random", seed=seed, runs_dir=runs), accuracies)

    def drawn(*options):
        picture = tmp_path / "x.svg"
        CliRunner().invoke(app, ["figure", "curves", "-o", str(picture), "--from", str(runs), *options])
        return picture.read_bytes()

    assert b"random  50.0 at 5%" in drawn()
    assert b"random  60.0<" in drawn("--seeds", "1")
    assert drawn() == drawn()  # to the byte, so that a picture under version control changes with its runs


@pytest.mark.parametrize("command", [["show", "accuracy"], ["figure", "curves", "-o", "x.svg"]])
def test_a_mistyped_folder_is_an_error(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for given, problem in (("nope", "nope does not exist"), ("file", "file is not a folder")):
        done = CliRunner().invoke(app, [*command, "--from", given])
        assert isinstance(done.exception, UserError)
        assert str(done.exception) == problem


def test_before_the_first_run_the_papers_numbers_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["show", "accuracy", "--datasets", "cifar10"])
    assert done.exit_code == 0
    assert "66.50" in done.stdout
    assert "no runs of this table in runs; `fedactive paper run accuracy` makes them" in done.stderr


def test_a_matrix_without_runs_is_a_sentence(tmp_path):
    done = paper("show", "penalty", "--from", tmp_path)
    assert done.stdout == ""
    assert "`fedactive paper run penalty` makes them" in done.stderr


def test_one_seed_does_not_tell_who_beats_whom(store, runs, tmp_path):
    for name, seeds in (("logo", (1, 2)), ("random", (1, 2)), ("entropy", (1,))):
        for seed in seeds:
            store(all_settings()[0].experiment(name, seed=seed, runs_dir=runs), [0.5, 0.5 + seed / 100])

    def done(*arguments):
        return CliRunner().invoke(app, [*map(str, arguments), "--from", str(runs)])

    shown = done("show", "penalty").stdout
    assert "random" in shown
    assert "entropy" not in shown  # 0.00, the best of averages, would be no merit
    alone = done("show", "penalty", "--seeds", 1)
    assert alone.stdout == ""
    tested = "who beats whom is tested over two seeds or more"
    assert alone.stderr == f"{tested}; of each in {runs} only one is used\n"
    drawn = done("figure", "penalty", "--seeds", 1, "-o", tmp_path / "x.svg")
    assert "no runs of any of the 38 settings with two seeds" in str(drawn.exception)


def test_ctrl_c_says_how_to_resume(tmp_path, monkeypatch):
    def stopped(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(grid, "require_data", lambda _: None)
    monkeypatch.setattr(comparison.Comparison, "run", stopped)
    done = CliRunner().invoke(app, ["run", "accuracy", "--no-trial", "--runs-dir", str(tmp_path)])
    assert done.exit_code == 130
    assert "start the same command again to resume" in done.output


@pytest.mark.parametrize(
    ("table", "until", "begin"),
    [("accuracy", 10, 20), ("accuracy", 20, None), ("cost", 5, 10), ("penalty", 20, None)],
)
def test_runs_that_end_before_the_papers_numbers_begin_are_told(tmp_path, monkeypatch, table, until, begin):
    ran = []
    monkeypatch.setattr(grid, "require_data", lambda _: None)
    monkeypatch.setattr(comparison.Comparison, "run", lambda grid: ran.extend(grid.experiments))
    monkeypatch.setattr(comparison, "report_failures", lambda _: None)
    folder = ["--runs-dir", str(tmp_path / "still to be made")]
    done = CliRunner().invoke(
        app, ["run", table, "--until", str(until), "--seeds", "1", "--no-trial", *folder]
    )
    assert done.exit_code == 0
    assert ran
    told = f"the paper's numbers begin at {begin}% labelled: there are none to compare these runs with"
    assert (told in done.stdout) == (begin is not None)
    now = f"now: fedactive paper show {table} --from '{tmp_path / 'still to be made'}'\n"
    assert (now in done.stdout) == (begin is None)


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        (["--until", "10"], "settings 18, 19, 37, 38"),
        (["--until", "2", "--settings", "15-17,34"], "settings 15, 34"),
        (["--until", "10", "--datasets", "svhn"], "settings 19, 38"),
        (["--until", "20"], ""),
        ([], ""),
    ],
)
def test_settings_that_begin_later_are_left_out_and_named(tmp_path, monkeypatch, options, left_out):
    ran = []
    monkeypatch.setattr(grid, "require_data", lambda _: None)
    monkeypatch.setattr(comparison.Comparison, "run", lambda grid: ran.extend(grid.experiments))
    monkeypatch.setattr(comparison, "report_failures", lambda _: None)
    folder = ["--runs-dir", str(tmp_path / "new"), "--seeds", "1", "--no-trial"]
    done = CliRunner().invoke(app, ["run", "penalty", *options, *folder])
    assert done.exit_code == 0
    assert ran
    told = [line for line in done.stdout.splitlines() if line.startswith("left out")]
    assert told == (
        [f"left out, because their first budget is beyond --until {options[1]}: {left_out}"]
        if left_out
        else []
    )


@pytest.mark.parametrize(
    "command", [["show", "acuracy"], ["run", "acuracy"], ["figure", "pie", "-o", "x.svg"]]
)
def test_an_unknown_name_is_one_sentence(command):
    done = paper(*command)
    assert done.returncode == 2
    assert "was given, allowed is one of" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["emd", "--alphas", "0.1;1"], "alphas: '0.1;1' was given, allowed is numbers separated by commas"),
        (["accuracy", "--rhos", "20"], "rhos: 20.0 was given, allowed is 1 here"),
        (
            ["accuracy", "--strategies", "finetune"],
            "strategy: 'finetune' was given, allowed is one of alfa",
        ),
        (["accuracy", "--until", "nan"], "until: nan was given, allowed is at least one budget, 5%"),
        (["ensembles", "--strategies", "finetune"], "did you mean 'finetune_badge'"),
        (["ensembles", "--strategies", "logo, finetune_badge"], "fedactive data get cifar10"),  # good
        (["emd", "--alphas", "0.1,inf", "--rhos", "1,20"], "fedactive data get cifar10"),
    ],
)
def test_what_is_asked_for_must_be_in_the_table(tmp_path, arguments, message):
    folders = ["--runs-dir", str(tmp_path / "runs"), "--data-dir", str(tmp_path)]
    done = CliRunner().invoke(app, ["run", *arguments, *folders])
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception)


def test_missing_data_is_told_before_any_run_starts(tmp_path):
    done = paper(
        "run", "accuracy", "--datasets", "svhn", "--runs-dir", tmp_path / "runs", "--data-dir", tmp_path
    )
    assert done.returncode == 1
    assert done.stderr.count("fedactive data get svhn") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["penalty", "observation"])
def test_figures_are_of_all_runs(tmp_path, name):
    done = CliRunner().invoke(app, ["show", name, "--from", str(tmp_path), "--datasets", "svhn"])
    assert "with --until, --datasets or --strategies" in str(done.exception)


def test_an_output_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    arguments = ["show", "accuracy", "--from", str(tmp_path), "-o"]
    done = CliRunner().invoke(app, [*arguments, str(tmp_path / "file" / "x.csv")])
    assert "x.csv: Not a directory" in str(done.exception)
    CliRunner().invoke(app, [*arguments, str(tmp_path / "new" / "x.csv")])
    assert len(pd.read_csv(tmp_path / "new" / "x.csv")) == 192

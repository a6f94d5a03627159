"""The command line as a user meets it: real processes."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedactive.cli.app import app
from fedactive.experiment import Experiment
from fedactive.options import options_of
from fedactive.query import STRATEGIES
from support.commands import COMMAND, cli


def shown(*arguments):
    result = CliRunner(env={"COLUMNS": "300", "TERM": "dumb", "NO_COLOR": "1"}).invoke(app, arguments)
    assert result.exit_code == 0
    return result.output


def test_every_setting_has_a_documented_flag():
    text = shown("run", "--help")
    for item in options_of(Experiment):
        assert "--" + item.name.replace("_", "-") in text
        assert item.help.replace("`", "")[:20].lower() in text.lower()
    assert len(options_of(Experiment)) == len(dataclasses.fields(Experiment)) - 1  # all but `described`


def test_strategies_and_datasets_are_listed():
    text = shown("strategies")
    assert all(name in text for name in STRATEGIES)
    text = shown("datasets")
    assert all(name in text for name in ("digits", "cifar10", "svhn", "pathmnist", "mnist"))


def test_names_of_strategies_are_not_cut_short_in_a_narrow_terminal():
    result = CliRunner(env={"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}).invoke(app, "strategies")
    assert all(f"│ {name} " in result.output for name in STRATEGIES)
    assert "…" not in result.output


def test_run_prints_the_result_and_the_folder(tmp_path):
    config = tmp_path / "experiment.toml"
    config.write_text(
        'dataset = "digits"\nstrategy = "random"\nclients = 3\nfl_rounds = 2\nlocal_epochs = 1\n'
    )
    done = cli(
        "run", "--config", config, "--rounds", 2, "--runs-dir", tmp_path / "runs[/old]", "--workers", 1
    )
    assert done.returncode == 0, done.stderr
    assert "AL round 2/2" in done.stdout  # progress as plain lines, without a terminal
    assert "mean of the last 2 FL rounds" in done.stdout  # the lines before say that of one FL round
    folder = re.search(r"run folder: (.*)", done.stdout)[1]
    saved = Experiment.from_toml((tmp_path / folder / "experiment.toml").read_text())
    assert (saved.rounds, saved.clients, saved.strategy) == (2, 3, "random")
    again = cli("run", "--config", config, "--rounds", 2, "--runs-dir", tmp_path / "runs[/old]")
    assert again.stdout.startswith("nothing was left to run: this run was finished before\n")
    assert again.stdout.endswith(done.stdout[done.stdout.index("┏") :])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["run", "--strategy", "lgo"],
            r"fedactive: strategy: 'lgo' was given, allowed is one of .*--plugin my_strategy\.py; did you mean 'logo'\?",
        ),
        (
            ["run", "--clients", "abc"],
            "fedactive: clients: 'abc' was given, allowed is a whole number, 1 or more",
        ),
        (
            ["run", "--config", "nowhere.toml"],
            "fedactive: config: 'nowhere.toml' was given, allowed is a TOML file",
        ),
        (
            ["run", "--config", sys.executable],
            "fedactive: config: '.*' was given, allowed is a TOML file, which is text",
        ),
        (
            ["run", "--alhpa", "1"],
            r"^fedactive: No such option: --alhpa .*--alpha.*\(see `fedactive run -h`\)\n$",
        ),
        (["rnu"], r"^fedactive: No such command 'rnu'\. Did you mean 'run'\? \(see `fedactive -h`\)\n$"),
        (["paper", "show"], r"^fedactive: Missing argument 'NAME' \(see `fedactive paper show -h`\)\n$"),
        (["compare", "--model", "vit"], r"^fedactive: model: 'vit' was given.*--plugin my_model\.py\n$"),
        (["run", "--algorithm", "fedsgd"], r"allowed is one of fedadam.*--plugin my_algorithm\.py"),
        (["data", "check", "cifar100"], "fedactive: dataset: 'cifar100' was given.*did you mean 'cifar10'"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    done = cli(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(sentence, done.stderr)
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--dataset", "--plugin"])
def test_a_file_that_cannot_be_looked_at_is_one_sentence(tmp_path, option):
    """One whose name is too long: to whoever is root no other is forbidden."""
    ending = {"--dataset": ".npz", "--plugin": ".py"}[option]
    done = cli("run", option, "x" * 300 + ending, cwd=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"fedactive: .*x{300}\.\w+: File name too long\n", done.stderr)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="/dev/full is Linux's")
def test_output_to_a_full_disk_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "datasets"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "fedactive: No space left on device\n"


def test_a_broken_configuration_file_is_named(tmp_path):
    (tmp_path / "mine.toml").write_text("alpha = = 1")
    done = cli("run", "--config", "mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "config: 'mine.toml' was given, allowed is a TOML file" in done.stderr
    assert "Invalid value (at line 1, column 9)" in done.stderr


@pytest.mark.parametrize("language", ["C", "C.UTF-8"])
def test_configuration_files_are_utf8_everywhere_and_may_begin_with_a_byte_order_mark(tmp_path, language):
    """As TOML wants it, whatever the system's own encoding is: here ASCII, kept by the two variables."""
    (tmp_path / "mine.toml").write_text('dataset = "digits" # Übung\nseed = -1\n', encoding="utf-8-sig")
    system = {"LC_ALL": language, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [*COMMAND, "run", "--config", "mine.toml"],
        cwd=tmp_path,
        env=os.environ | system,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith("fedactive: seed: -1 was given")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are counted in Linux's /proc")
def test_ctrl_c_while_workers_are_starting_is_one_sentence(tmp_path):
    """As a terminal does it: the signal goes to all processes of the group."""
    options = [
        "--dataset",
        "digits",
        "--augment",
        "none",
        "--clients",
        "3",
        "--device",
        "cpu",
        "--workers",
        "2",
    ]
    command = [*COMMAND, "run", *options]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not any(
        "engines.worker" in Path(f"/proc/{child}/cmdline").read_text()
        for child in children.read_text().split()
    ):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.7)  # they are importing now
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "start the same command again to resume" in errors
    assert "Traceback" not in errors


def test_missing_data_says_how_to_get_it_and_leaves_nothing_behind(tmp_path):
    done = cli("run", "--dataset", "svhn", cwd=tmp_path)
    assert done.returncode == 1
    assert "fedactive data get svhn --data-dir data" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_data_check_reports_each_file(tmp_path):
    done = cli("data", "check", "svhn", "--data-dir", tmp_path)
    assert done.returncode == 1
    assert "train_32x32.mat: not found" in done.stdout


def test_a_tilde_after_an_equals_sign_is_the_home_folder_in_every_command(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    checked = cli("data", "check", "svhn", "--data-dir=~/data").stdout
    assert checked.startswith(f"{tmp_path}/data/train_32x32.mat: not found")
    shown = cli("paper", "show", "accuracy", "--from=~/runs").stderr
    assert shown == f"fedactive: {tmp_path}/runs does not exist\n"


def test_options_of_a_plugin_that_are_numbers_are_listed_and_set(tmp_path):
    plugin = tmp_path / "tempered.py"
    plugin.write_text(
        "from dataclasses import dataclass\n"
        "from fedactive.query import Strategy, register\n"
        "from fedactive.query.strategy import parameter\n"
        "@register\n@dataclass(frozen=True)\n"
        "class Tempered(Strategy):\n"
        "    name, summary, paper, selectors, needs = 'tempered', '', '', ('none',), frozenset()\n"
        "    temperature: float = parameter(0.5, (0.1, 0.5, 1.0), 'of the softmax')\n"
        "    def select(self, pool, budget, rng):\n"
        "        raise ValueError(f'at {self.temperature * 2}')\n"
    )
    listed = cli("strategies", "--plugin", plugin)
    assert "temperature= 0.1" in listed.stdout, listed.stderr
    small = ("--dataset", "digits", "--clients", 3, "--rounds", 2, "--fl-rounds", 1, "--workers", 1)
    options = ("--strategy", "tempered", "--strategy-options", "temperature=1", "--runs-dir", tmp_path)
    assert "ValueError: at 2.0" in cli("run", "--plugin", plugin, *small, *options).stderr


def test_ctrl_c_while_libraries_are_loaded_is_no_traceback(tmp_path):
    (tmp_path / "torch.py").write_text(
        "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [*COMMAND, "strategies"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == (None, "")
    assert process.returncode == 130


def test_version():
    assert re.match(r"fedactive \d+\.\d+", cli("--version").stdout)


PLUGIN = """
import torch
from fedactive.query import Selection, Strategy, register

@register
class First(Strategy):
    name, summary, paper, selectors, needs = "NAME", "takes the first", "-", ("none",), frozenset()

    def select(self, pool, budget, rng):
        return Selection(torch.arange(budget), torch.zeros(budget))
"""


def test_several_plugins_reach_every_run_of_a_comparison(tmp_path):
    names = ("mine", "yours")
    for name in names:
        (tmp_path / f"{name}.py").write_text(PLUGIN.replace("NAME", name))
    plugins = [word for name in names for word in ("--plugin", f"{name}.py")]
    small = ("--dataset", "digits", "--clients", 2, "--rounds", 2, "--fl-rounds", 1, "--local-epochs", 1)
    done = cli("compare", *plugins, "--strategy", "mine,yours", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in names)

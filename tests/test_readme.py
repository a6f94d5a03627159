"""The README's Python example is run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import fedactive

ROOT = Path(__file__).parent.parent


def test_the_example_runs_and_prints_an_accuracy_per_round(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    # A plain script, without a main guard: it must not matter that training uses worker processes.
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\d\s+0\.\d+", done.stdout, re.MULTILINE)) == 3
    assert len(list((tmp_path / "runs").glob("digits-*"))) == 1


def test_the_names_of_the_example_are_there_to_complete():
    assert {"Experiment", "Result", "Silent", "run"} <= set(dir(fedactive))


def test_the_first_thing_are_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert text.index("make demo") < text.index("make test") < text.index("## ")

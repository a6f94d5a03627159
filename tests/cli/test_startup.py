"""Help, completion and the answers to typing mistakes do not wait for the libraries that do the work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "pandas", "numpy", "scipy", "pyarrow", "matplotlib")
PROGRAM = f"""
import atexit, sys
atexit.register(lambda: print("loaded:", *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr))
from fedactive.__main__ import main
main()
"""


def loaded_by(*arguments: str, **environment: str) -> tuple[int, str]:
    """The exit code of a command, and which of the heavy libraries it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["run", "--help"], 0),
        (["paper", "show", "-h"], 0),
        (["site", "serve", "-h"], 0),
        (["rnu"], 2),
        (["run", "--alhpa", "1"], 2),
        (["run", "--strategy", "lgo"], 2),
        (["run", "--backbone", "efficientnet_lit0"], 2),
        (["run", "--clients", "many"], 2),
        (["datasets"], 0),
    ],
)
def test_they_are_not_loaded(arguments: list[str], code: int):
    assert loaded_by(*arguments) == (code, "loaded:")


def test_nor_by_completion():
    words = {"COMP_WORDS": "fedactive run --strategy l", "COMP_CWORD": "3"}
    assert loaded_by(_FEDACTIVE_COMPLETE="complete_bash", **words) == (0, "loaded:")


def test_the_package_is_imported_without_them():
    names = "import fedactive, fedactive.data.catalog; fedactive.Experiment"
    code = f"{names}; import sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_run_on_images_does_not_load_the_compiler(tmp_path):
    """torch._dynamo takes seconds, and with Triton it says at the end of a command that memory leaks."""
    program = PROGRAM.replace(repr(HEAVY), "('torch', 'torch._dynamo', 'triton')")
    words = "run --dataset digits --model mlp --clients 2 --rounds 1 --fl-rounds 1 --device cpu --workers 1"
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split(), "--runs-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "loaded: torch"

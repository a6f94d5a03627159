"""Exit codes: 0 done, 1 something went wrong, 2 it was asked wrongly. Always a sentence, never a traceback."""

from __future__ import annotations

import re

from fedactive.errors import ERROR
from support.commands import cli

ASKED_WRONGLY = (
    "rnu",
    "run --nonsense",
    "run --rounds abc",
    "run --strategy lego",
    "run --config nowhere.toml",
    "run --plugin nowhere.py",
    "run --dataset nowhere.npz",
    "compare --jobs 0",
    "compare --on mars --dataset digits",
    "export runs/one -o model.xyz",
    "new strategy logo",
    "data get nothing",
    "embed --backbone nothing --dataset digits -o x.npz",
    "benchmark run nothing",
    "paper show nothing",
    "paper document nowhere.md",
    "coordinator init",
    "site log north --since tomorrow",
)
WENT_WRONG = (
    "run --dataset cifar10",
    "report .",
    "export nowhere -o model.onnx",
    "predict nowhere.onnx images -o p.csv",
    "benchmark show smoke",
    "paper figure curves -o curves.svg",
    "paper export nowhere",
    "coordinator sites nowhere",
    "site serve nowhere",
)
DONE = ("--version", "new strategy mine", "strategies", "paper settings")


def test_exit_codes_tell_what_was_asked_wrongly_from_what_went_wrong(tmp_path):
    for code, commands in ((2, ASKED_WRONGLY), (1, WENT_WRONG), (0, DONE)):
        for command in commands:
            done = cli(*command.split(), cwd=tmp_path)
            assert done.returncode == code, f"{command}: {done.stderr}"
            assert re.fullmatch(f"{ERROR}.*" if code else "", done.stderr.strip()), (
                f"{command}: {done.stderr}"
            )

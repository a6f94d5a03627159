"""How long does the command line take to answer? Promised: a quarter of the time of `import torch`, or less.

    python benchmarks/startup.py [--trials 7]

Each question is asked in a process of its own, in turn with `python -c "import torch"`, so that whatever else
the machine does slows all of them alike. What counts is the ratio of the medians.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Annotated

import typer

ALLOWED = 0.25
TORCH = "import torch"
COMPLETION = "_FEDACTIVE_COMPLETE"  # the variable by which a shell asks for completions


def asked(words: str) -> dict[str, str]:
    """The environment in which Bash asks how the last of these words may go on."""
    return {COMPLETION: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}


# What is typed, then what it ends with, and the environment of a completion.
QUESTIONS: dict[str, tuple[list[str], int, dict[str, str]]] = {
    "--help": (["--help"], 0, {}),
    "-h": (["-h"], 0, {}),
    "--version": (["--version"], 0, {}),
    "run --help": (["run", "--help"], 0, {}),
    "paper show --help": (["paper", "show", "--help"], 0, {}),
    "unknown command": (["rnu"], 2, {}),
    "unknown option": (["run", "--alhpa", "1"], 2, {}),
    "unknown strategy": (["run", "--strategy", "lgo"], 2, {}),
    "complete a command": ([], 0, asked("fedactive comp")),
    "complete --strategy": ([], 0, asked("fedactive run --strategy l")),
}


def seconds(command: list[str], expected: int, environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, env=os.environ | environment, check=False)
    taken = time.perf_counter() - begun
    if done.returncode != expected:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stderr.decode()}")
    return taken


def main(trials: Annotated[int, typer.Option(help="Ask so often.", min=1)] = 7) -> None:
    taken: dict[str, list[float]] = {name: [] for name in (TORCH, *QUESTIONS)}
    for trial in range(trials + 1):
        for name in taken:
            arguments, expected, environment = QUESTIONS.get(name, ([], 0, {}))
            command = ["-c", TORCH] if name == TORCH else ["-m", "fedactive", *arguments]
            answer = seconds([sys.executable, *command], expected, environment)
            if trial > 0:  # the first time, files come from the disk
                taken[name].append(answer)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    print(f"{'':24}{'median of ' + str(trials):>14}{'of import torch':>18}")
    for name, median in medians.items():
        print(f"{name:24}{median:12.3f} s{median / medians[TORCH]:18.2f}")
    slowest = max(median for name, median in medians.items() if name != TORCH) / medians[TORCH]
    print(f"the slowest answer takes {slowest:.2f} of import torch, {ALLOWED} is allowed")
    if slowest >= ALLOWED:
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)

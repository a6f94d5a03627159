"""Several runs at a time on a CPU: each is a process of its own, a copy of one that has loaded the libraries.

Loading PyTorch takes seconds, a copy takes none.

    python -m fedactive.sweep.nursery [PLUGIN ...]

reads and answers as `fedactive.sweep.crew` does, so `Crew` is the other end of these pipes, too. When its
input closes it ends, and its runs with it.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from fedactive.children import run_to_the_end
from fedactive.quick_imports import quick_imports
from fedactive.sweep.lifeline import LIFELINE

SECONDS_BETWEEN_LOOKS = 0.1  # at which runs have ended


def main(plugins: Sequence[str]) -> None:
    with quick_imports():  # what is never searched is never copied
        import_module("fedactive.laboratory.run")  # with all that a run needs
    running: dict[int, str] = {}  # the configuration file of each process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the runs as well
    signal.signal(signal.SIGTERM, lambda *_: end(running))
    lifeline = os.pipe()
    unread = b""
    while True:
        if select.select([0], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            if not (more := os.read(0, 2**16)):
                return
            *lines, unread = (unread + more).split(b"\n")
            for file in map(os.fsdecode, lines):
                if (process := os.fork()) == 0:
                    become(file, plugins, lifeline)
                running[process] = file
        for process, file in list(running.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                del running[process]
                os.write(1, f"{file}\t{os.waitstatus_to_exitcode(status)}\n".encode())


def end(running: dict[int, str]) -> None:
    """End in good order: each run as by Ctrl-C."""
    for process in running:
        os.kill(process, signal.SIGTERM)
    for process in running:
        os.waitpid(process, 0)
    os._exit(1)


def become(file: str, plugins: Sequence[str], lifeline: tuple[int, int]) -> NoReturn:
    """Be the process of this run, to its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    os.dup2(lifeline[0], 0)
    os.close(lifeline[1])
    log = os.open(Path(file).with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ[LIFELINE] = "1"
    sys.argv = ["fedactive", "run", "--config", file, *(word for p in plugins for word in ("--plugin", p))]
    as_python_m = partial(runpy.run_module, "fedactive", run_name="__main__", alter_sys=True)
    run_to_the_end(as_python_m)


if __name__ == "__main__":
    main(sys.argv[1:])

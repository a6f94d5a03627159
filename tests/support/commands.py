"""Commands of fedactive as a user gives them: each in a process of its own, with the libraries already loaded.

Loading PyTorch takes seconds, and short commands do little else. So one process loads the libraries, and every
command begins as a copy of it. What belongs to fedactive is imported by the command itself, as it is in life,
but for `quick_imports`, with which that process begins.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from fedactive.quick_imports import quick_imports

COMMAND = [sys.executable, "-m", "fedactive"]  # from the very beginning
LIBRARIES = ("torch", "pandas", "pyarrow.parquet", "scipy.stats", "typer")


def cli(*arguments: object, cwd: Path | None = None, before: str = "") -> subprocess.CompletedProcess[str]:
    """Give a command, and return its exit code and all that it printed; its process runs `before` first."""
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        pipe = start()
        pipe.send((words, before, os.fspath(cwd or Path.cwd()), dict(os.environ), outputs))
        code = pipe.recv()
        return subprocess.CompletedProcess(words, code, *(output.read_text() for output in outputs))


@functools.cache
def start() -> Connection:
    """Start the process that loads the libraries, once."""
    ours, theirs = Pipe()
    program = (
        f"import sys; sys.path[:] = {sys.path}; from support.commands import serve; serve({theirs.fileno()})"
    )
    process = subprocess.Popen([sys.executable, "-c", program], pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # before that: then it ends
    return ours


def serve(descriptor: int) -> None:
    with quick_imports():  # what is never searched is never copied
        for library in LIBRARIES:
            import_module(library)
    pipe = Connection(descriptor)
    with suppress(EOFError):
        while True:
            request = pipe.recv()
            if child := os.fork():
                pipe.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            else:
                pipe.close()
                become(*request)


def become(
    words: list[str], before: str, folder: str, environment: dict[str, str], outputs: list[Path]
) -> NoReturn:
    """Be the process of this command, to its end."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, output in zip((1, 2), outputs, strict=True):
        with output.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    sys.argv = ["fedactive", *words]
    exec(before, {})
    from fedactive.__main__ import main
    from fedactive.children import run_to_the_end

    run_to_the_end(main)

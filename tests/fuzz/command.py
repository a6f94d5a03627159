"""Give one command in this process, through its real entry, and say what it did that none may do."""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import typer
from PIL import Image

import fedactive.cli.app
from fuzz.payload import EXECUTED
from fuzz.watch import Watch

CODES = (0, 1, 2)
SECONDS = 10  # of computing
SECONDS_TO_HANG = 60  # other programs may want this machine, too
LONGEST = 5000  # characters of a line that a person is to read
MOST_MEMORY = 2**31  # bytes that one command may need more than all before

watch = cache(Watch)
all_commands = cache(
    typer.main.get_command
)  # Typer makes them anew at each call, which takes longer than most cases


class HangsError(BaseException):
    """The command does not end by itself. No handler of ordinary errors may take it."""


@dataclass(frozen=True)
class Answer:
    code: object
    out: str
    err: str
    problems: tuple[str, ...]


def give(words: Sequence[str], place: Path) -> Answer:
    """Give the command in this folder, and list what is wrong with its answer."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", how) for how in ("strict", "backslashreplace"))
    problems, code = [], None
    begun, memory = time.process_time(), most_memory()
    with ExitStack() as stack:
        for guard in (chdir(place), surroundings(words, place), redirect_stdout(out), redirect_stderr(err)):
            stack.enter_context(guard)
        noticed = stack.enter_context(watch().over(place))
        try:
            fedactive.cli.app.main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            problems.append(traceback.format_exc(limit=-8))
    problems += noticed
    if (seconds := time.process_time() - begun) > SECONDS:
        problems.append(f"it took {seconds:.1f} s")
    if (more := most_memory() - memory) > MOST_MEMORY:
        problems.append(f"it needed {more / 2**30:.1f} GiB")
    texts = [read(stream) for stream in (out, err)]
    if (place / EXECUTED).exists():
        problems.append("it executed a pickle")
    return Answer(code, *texts, tuple(problems or wrong_answer(code, *texts)))


def wrong_answer(code: object, out: str, err: str) -> Iterator[str]:
    if code not in CODES:
        yield f"its exit code is {code!r}"
    if code != 0 and not (out + err).strip():
        yield "it says nothing"
    if "Traceback (most recent" in out + err:
        yield "it prints a traceback"
    if code == 2 and "fedactive: " not in err and "Usage: " not in out:
        yield "it does not say what was asked wrongly"
    for line in err.splitlines():
        if len(line) > LONGEST:
            yield f"it prints a line of {len(line)} characters"
        if not line.isprintable():
            yield f"it prints control characters: {line!r}"


@contextmanager
def surroundings(words: Sequence[str], place: Path) -> Iterator[None]:
    """Give the process what a command finds, and take back what it changes."""
    home, temporary = place / "home", place / "temporary"
    for folder in (home, temporary):
        folder.mkdir(exist_ok=True)
    variables = {"HOME": str(home), "TMPDIR": str(temporary), "FEDACTIVE_CACHE": str(home / "cache")}
    before = signal.signal(signal.SIGALRM, end)
    terminate = signal.getsignal(signal.SIGTERM)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_TO_HANG)
    try:
        with (
            patch.dict(os.environ, variables),
            patch.object(sys, "argv", ["fedactive", *words]),
            patch("tempfile.tempdir", None),
            patch("typer.main.get_command", all_commands),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")  # as outside of tests
            for kind in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
                warnings.simplefilter("ignore", kind)
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGTERM, terminate)


def end(*_: object) -> None:
    raise HangsError(f"it does not end in {SECONDS_TO_HANG} s")


def read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    content: bytes = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return content.decode(errors="replace")


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

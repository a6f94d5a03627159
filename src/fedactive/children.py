"""The environment of the Python processes that we start, and the end of those that are copies of ours.

Python looks for modules in the current directory first when it is started with -c or -m. Somebody else may
have put a json.py or a flwr.py there, and it would be run. The variable reaches their own children, too.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import NoReturn

INTERRUPTED = 130  # the exit code that a shell tells of a Python that Ctrl-C has ended
NOT_WRITTEN = 120  # the exit code of Python where the last of its output cannot be written


def environment_of_a_child(variables: Mapping[str, str]) -> dict[str, str]:
    """Return our environment with these variables, for a child that imports nothing from where it is started.

    PYTHONPATH still counts: it is what the user wants to be imported.
    """
    return os.environ | {"PYTHONSAFEPATH": "1"} | dict(variables)


def run_to_the_end(main: Callable[[], object]) -> NoReturn:
    """Be the process of this program, in a copy of a process, and end as Python does, whatever signals come.

    Only that nothing in memory is taken apart: with PyTorch that is 0.2 s of work, as all the pages that are
    touched have to be copied first. So what is buffered in a file that nobody has closed is lost.
    """
    code = 1
    try:
        code = exit_code(main)
    finally:  # one in the other: a signal that interrupts one of these steps does not keep the next from it
        try:
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            try:
                atexit._run_exitfuncs()
            finally:
                try:
                    code = code if flush() else code or NOT_WRITTEN
                finally:
                    os._exit(code & 0xFF)  # of which a system keeps no more


def exit_code(main: Callable[[], object]) -> int:
    """Run the program, print what ended it early, and return its exit code."""
    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def flush() -> bool:
    """Write what was printed; return whether that was possible."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return False
    return True

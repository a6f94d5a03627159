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

NOT_WRITTEN = 120  # the exit code of Python where the last of its output cannot be written


def environment_of_a_child(variables: Mapping[str, str]) -> dict[str, str]:
    """Return our environment with these variables, for a child that imports nothing from where it is started.

    PYTHONPATH still counts: it is what the user wants to be imported.
    """
    return os.environ | {"PYTHONSAFEPATH": "1"} | dict(variables)


def run_to_the_end(main: Callable[[], object]) -> NoReturn:
    """Be the process of this program, in a copy of a process, and end as Python does.

    Only that nothing in memory is taken apart: with PyTorch that is 0.2 s of work, as all the pages that are
    touched have to be copied first.
    """
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            code = code or NOT_WRITTEN
        os._exit(code)

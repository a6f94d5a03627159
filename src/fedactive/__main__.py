"""The command `fedactive`, which is also `python -m fedactive`."""

import atexit
import gc
import sys

# After so many new objects Python looks for garbage. By default that is so often that it takes a sixth of the
# time in which PyTorch and pandas are imported.
OBJECTS_BETWEEN_SEARCHES = 5000


def main() -> None:
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    atexit.register(leave_garbage)
    try:
        from fedactive.cli.app import main  # here: it takes seconds, in which a user may press Ctrl-C

        main()
    except KeyboardInterrupt:
        sys.exit(130)


def leave_garbage() -> None:
    """Spare Python the search for garbage in all of PyTorch at the end, which takes 0.3 s.

    Not where Triton is loaded: it would print what it finds left as leaks.
    """
    if "triton" not in sys.modules:
        gc.freeze()


if __name__ == "__main__":
    main()

"""The command `fedactive`, which is also `python -m fedactive`."""

import atexit
import gc
import sys


def main() -> None:
    atexit.register(gc.freeze)  # or Python looks for garbage in all of PyTorch at the end, which takes 0.3 s
    try:
        from fedactive.cli.app import main  # here: it takes seconds, in which a user may press Ctrl-C

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

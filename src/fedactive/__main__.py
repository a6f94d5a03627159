"""The command `fedactive`, which is also `python -m fedactive`."""

import sys


def main() -> None:
    try:
        from fedactive.cli.app import main  # here: it takes seconds, in which a user may press Ctrl-C

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

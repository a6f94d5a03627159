"""Install fedactive into the environment of this Python, and show how far that is.

pip alone is silent for minutes (`--quiet`) or prints hundreds of lines. This prints one line that changes
every second on a terminal; in a file, a line for each large download and each step. `make setup` runs it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-color", "install"]
MEGABYTES_OF_A_LARGE_DOWNLOAD = 30.0
LINES_OF_AN_ERROR = 15  # that are shown where pip does not mark them as such


class Watch:
    """What pip is doing, by what it prints."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.packages = 0
        self.doing = "asking which packages there are"
        self.steps: list[str] = []  # worth a line of their own

    def follow(self, output: Iterable[str]) -> None:
        for line in output:
            self.lines.append(line.rstrip())
            self.read(line.strip())

    def read(self, line: str) -> None:
        if line.startswith("Collecting "):
            self.packages += 1
            self.doing = line.split()[1]
        elif download := re.match(r"Downloading .*?([^/\s]+)\s+\(([\d.]+) MB\)", line):
            package, megabytes = download[1].split("-")[0], float(download[2])
            self.doing = f"downloading {package} ({megabytes:.0f} MB)"
            if megabytes >= MEGABYTES_OF_A_LARGE_DOWNLOAD:
                self.steps.append(self.doing)
        elif line.startswith("Installing collected packages"):
            self.doing = f"unpacking {line.count(',') + 1} packages"
            self.steps.append(self.doing)

    def why_it_failed(self) -> str:
        errors = [line for line in self.lines if line.startswith("ERROR")]
        return "\n".join(errors or self.lines[-LINES_OF_AN_ERROR:])


def install(arguments: Sequence[str]) -> int:
    """Run `pip install` with these arguments; return its exit code."""
    watch, begun = Watch(), time.monotonic()
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*PIP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    reader = threading.Thread(target=watch.follow, args=(process.stdout,))
    reader.start()
    on_terminal, told = sys.stdout.isatty(), 0
    while reader.is_alive():
        reader.join(1.0)
        seconds = time.monotonic() - begun
        if on_terminal:
            line = f"set-up: {seconds:4.0f} s  {watch.packages:3} packages  {watch.doing}"
            print(f"\r\033[K{line[: os.get_terminal_size().columns - 1]}", end="", flush=True)
        else:
            for step in watch.steps[told:]:
                print(f"set-up: {step}", flush=True)
            told = len(watch.steps)
    if on_terminal:
        print("\r\033[K", end="")
    code = process.wait()
    if code:
        print(watch.why_it_failed(), file=sys.stderr)
    else:
        print(f"set-up: done in {time.monotonic() - begun:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(install(sys.argv[1:]))

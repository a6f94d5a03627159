"""Thousands of cases, by command: make fuzz FUZZ="--cases 5000 --seed 7 --only npz".

What is found is printed with the number of its case and the command; the folder with its input is kept.
A process that dies or hangs is a finding, too: a new one goes on with the next case.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.cases import TARGETS, Case
from fuzz.command import SECONDS_TO_HANG
from fuzz.sound import Sound

FOUND = 100
PAGES = "pages"
TESTS_OF_PAGES = (
    "sites/page/test_fuzz.py",
    "sites/coordinator/overview/test_fuzz.py",
    "sites/test_monitor.py",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="so many of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=[*TARGETS, PAGES], default=[*TARGETS, PAGES])
    parser.add_argument("--case", type=int, help="only the case of this number")
    parser.add_argument("--folder", type=Path, help="work in this folder")
    parser.add_argument("--in-process", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    if given.in_process is not None:
        return work(given.only[0], given.seed, given.in_process, given.cases, folder)
    first, end = (given.case, given.case + 1) if given.case is not None else (0, given.cases)
    targets = [target for target in given.only if target != PAGES]
    found = sum(fuzz(target, given.seed, first, end, folder / target) for target in targets)
    if PAGES in given.only:
        found += fuzz_pages(given.cases)
    print(f"{found} findings, in {folder}")
    return int(found > 0)


def fuzz(target: str, seed: int, first: int, end: int, folder: Path) -> int:
    """Do the cases in processes of their own; return how many found something."""
    begun, found = time.monotonic(), 0
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "number"
    while first < end:
        log.write_text("-1")
        words = ["--only", target, "--seed", str(seed), "--cases", str(end), "--in-process", str(first)]
        command = [sys.executable, "-m", "fuzz", *words, "--folder", str(folder)]
        with subprocess.Popen(command) as process:
            code = wait(process, log)
        if code >= FOUND:
            return found + report(target, seed, end, begun, code - FOUND)
        if code >= 0:
            raise SystemExit("the fuzz test itself has failed")
        first = int(log.read_text())
        print(f"{target} {seed}/{first}: the process ended by signal {-code}, its input is in {folder}/case")
        (folder / "case").rename(folder / f"died-{seed}-{first}")
        first, found = first + 1, found + 1
    return found


def fuzz_pages(requests: int) -> int:
    """Do the tests of pages with so many requests, 2,000 or more, always the same; return whether one failed."""
    tests = [str(Path(__file__).parent.parent / name) for name in TESTS_OF_PAGES]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-k", "requests", *tests]
    return int(
        subprocess.run(command, env=os.environ | {"REQUESTS": str(max(2000, requests))}).returncode != 0
    )


def report(target: str, seed: int, end: int, begun: float, found: int) -> int:
    seconds, cpu = time.monotonic() - begun, sum(os.times()[2:4])
    print(
        f"{target}, seed {seed}: {found} findings in cases up to {end}; {seconds:.0f} s, "
        f"processors so far {cpu:.0f} s",
        flush=True,
    )
    return found


def wait(process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait for its end; kill it where a case takes for ever, in code that no signal of Python's interrupts."""
    while True:
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            if time.time() - log.stat().st_mtime > 2 * SECONDS_TO_HANG:
                process.kill()


def work(target: str, seed: int, first: int, end: int, folder: Path) -> int:
    """Do the cases in this process; the exit code, less FOUND, says how many found something."""
    faulthandler.enable()
    (folder / f"sound-{first}").mkdir(exist_ok=True)
    sound, found = Sound(folder / f"sound-{first}"), 0
    for number in range(first, end):
        (folder / "number").write_text(str(number))
        case, place = Case(target, seed, number), folder / "case"
        words, answer = case.run(place, sound)
        if answer.problems:
            found += 1
            kept = place.rename(folder / f"{seed}-{number}-{time.time_ns()}")
            print(case.describe(words, answer, kept), flush=True)
    return FOUND + min(found, 100)


if __name__ == "__main__":
    sys.exit(main())

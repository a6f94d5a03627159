"""How `make mutants` judges its faults: each is planted in a fork, and the tests that execute it are run."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import hypothesis
import pytest

from support.exchange import constant_of, exchange, new_code
from support.faults import Mutant, digest

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src/fedactive")
CACHE = ROOT / ".mutants"  # what tests execute, and which mutants were noticed
LOG = CACHE / "noticed"
HEAVY = ["matplotlib.pyplot", "pandas", "pyarrow.parquet", "scipy.stats", "sklearn.cluster", "torch"]


class Recorder:
    """A pytest plugin: which lines of the package each test executes, and how long it takes."""

    def __init__(self, package: Path) -> None:
        self.package = f"{package}/"
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        lines: dict[str, set[int]] = defaultdict(set)
        self.tests[nodeid] = {"lines": lines, "seconds": -time.process_time(), "failed": False}

        def trace(frame: Any, event: str, _: Any) -> Any:
            if frame.f_code.co_filename.startswith(self.package):
                lines[frame.f_code.co_filename.removeprefix(self.package)].add(frame.f_lineno)
                return trace
            return None

        threading.settrace(trace)
        sys.settrace(trace)

    def pytest_runtest_logreport(self, report: Any) -> None:
        seen = self.tests[report.nodeid]
        seen["failed"] |= report.failed
        if report.when == "setup":
            seen["setup"] = seen["seconds"] + time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        sys.settrace(None)
        self.tests[nodeid]["seconds"] += time.process_time()


class Planter:
    """A pytest plugin: instead of running the collected tests once, run some for each mutant, in a fork."""

    def __init__(self, laboratory: Laboratory, mutants: list[Mutant]) -> None:
        self.laboratory, self.mutants = laboratory, mutants

    def pytest_runtestloop(self, session: Any) -> bool:
        known = self.laboratory.record(session)
        items = {item.nodeid: item for item in session.items}
        package = f"{self.laboratory.place / PACKAGE}/"
        gc.unfreeze()  # what is frozen, as by tests/conftest.py, is in no list of objects
        functions = [f for f in gc.get_objects() if isinstance(f, FunctionType)]
        alive = [f for f in functions if f.__code__.co_filename.startswith(package)]
        if not alive:
            raise RuntimeError("no function of the package is found to plant a fault in")
        gc.freeze()  # or else collecting in a fork would copy everything
        for mutant in self.mutants:
            chosen, seconds = choose(mutant, known, self.laboratory.patience)
            if constant := constant_of(mutant):
                module = f"fedactive.{mutant.file.removesuffix('.py').replace('/', '.')}"

                def exchanged(
                    chosen: list[str] = chosen, constant: Any = constant, module: str = module
                ) -> int:
                    exchange(constant, module)
                    return run(session, [items[name] for name in chosen])

                self.laboratory.judge(mutant, exchanged, seconds, at_last=False)
                continue
            codes = new_code(mutant, self.laboratory.path(mutant))
            if codes is None or not any(executes(seen, mutant) for seen in known.values()):
                continue

            def planted(chosen: list[str] = chosen, codes: Any = codes) -> int:
                for function in alive:
                    code = function.__code__
                    if new := codes.get((code.co_filename, code.co_qualname, code.co_firstlineno)):
                        function.__code__ = new
                return run(session, [items[name] for name in chosen])

            self.laboratory.judge(mutant, planted, seconds)
        return True


class Laboratory:
    """A copy of the repository in which faults are planted."""

    def __init__(self, place: Path, targets: list[str], patience: float) -> None:
        self.place, self.patience = place, patience
        listed = subprocess.check_output(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True
        )
        for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
        shared = sorted((place / "tests").rglob("conftest.py"))
        self.shared = digest(*(path.read_bytes() for path in shared))
        self.sources = {name: digest((place / PACKAGE / name).read_bytes()) for name in targets}
        os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(place / "src")}
        sys.path[:0] = [str(place / "src")]
        os.chdir(place)
        for module in HEAVY:
            importlib.import_module(module)
        gc.freeze()
        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # nobody reads the smallest example
        hypothesis.settings.register_profile(
            "m", derandomize=True, database=None, deadline=None, phases=phases
        )
        hypothesis.settings.load_profile("m")

    def path(self, mutant: Mutant) -> Path:
        return self.place / PACKAGE / mutant.file

    def survivors(self, files: list[str], mutants: list[Mutant]) -> list[Mutant]:
        """The mutants that the tests in these files do not notice."""
        (self.place / "noticed").write_text("")
        forked(lambda: self.pytest(files, Planter(self, mutants)))
        judged = self.judged()
        known: dict[str, Any] = {}
        for file in files:
            if (tests := self.known(file)) is not None:
                known |= tests
            else:
                print(f"cannot be run, and is left out: {file}", flush=True)
        for test in (test for test, seen in known.items() if seen["failed"]):
            print(f"fails without a fault, and is left out: {test}", flush=True)
        for mutant in mutants:  # where no function can be exchanged, the package is imported anew
            chosen, seconds = choose(mutant, known, self.patience)
            if mutant.key not in judged and chosen:
                self.judge(mutant, lambda tests=["-x", *chosen]: self.pytest(tests), 5 + seconds)
        judged = self.judged()
        return [mutant for mutant in mutants if not judged.get(mutant.key)]

    def judged(self) -> dict[str, bool]:
        return {key: code == "1" for key, code in map(str.split, (self.place / "noticed").open())}

    def judge(self, mutant: Mutant, tests: Callable[[], int], seconds: float, at_last: bool = True) -> None:
        """Write down whether the tests fail, while the mutant is on disk too, for processes that they start.

        If they do not and that is not said at last, nothing is written down.
        """
        path = self.path(mutant)
        original = path.read_text()
        write(path, mutant.source)
        failed = forked(tests, 5 + 3 * seconds)
        write(path, original)
        if failed or at_last:
            with (self.place / "noticed").open("a") as file:
                file.write(f"{mutant.key} {int(failed)}\n")
        if failed:
            with LOG.open("a") as file:
                file.write(f"{mutant.key}\n")

    def kept(self, file: str) -> Path:
        return CACHE / f"{digest(self.shared.encode(), file.encode(), (self.place / file).read_bytes())}.json"

    def known(self, file: str) -> dict[str, Any] | None:
        """What each test of a file executes; None where that is not known of these sources."""
        if not self.kept(file).exists():
            return None
        tests: dict[str, Any]
        sources, tests = json.loads(self.kept(file).read_text())
        return tests if sources.items() <= self.sources.items() else None

    def record(self, session: Any) -> dict[str, Any]:
        """What each collected test executes; where that is not known, it is run as it is."""
        known: dict[str, Any] = {}
        for file in dict.fromkeys(item.nodeid.split("::")[0] for item in session.items):

            def look(file: str = file) -> int:
                recorder = Recorder(self.place / PACKAGE)
                session.config.pluginmanager.register(recorder)
                run(session, [i for i in session.items if i.nodeid.startswith(f"{file}::")], to_the_end=True)
                executed = {name for seen in recorder.tests.values() for name in seen["lines"]}
                sources = {name: self.sources[name] for name in sorted(executed & self.sources.keys())}
                self.kept(file).write_text(json.dumps([sources, recorder.tests], default=sorted))
                return 0

            if self.known(file) is None and forked(look):
                raise RuntimeError(f"{file} cannot be run")
            known |= self.known(file) or {}
        return known

    def pytest(self, arguments: list[str], *plugins: Any) -> int:
        with (self.place / "said").open("w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        usual = ["-p", "no:cacheprovider", "-W", "ignore:Module already imported"]
        usual += ["--assert=plain", "--tb=native"]  # nobody reads why a test fails
        return int(pytest.main([*usual, f"--basetemp={self.place / 'tmp'}", *arguments], plugins=plugins))


def write(path: Path, text: str) -> None:
    """Write a source so that Python compiles it anew, which looks at its time in whole seconds."""
    later = int(path.stat().st_mtime) + 1  # than any version before, whichever process wrote that
    path.write_text(text)
    os.utime(path, (later, later))


def executes(seen: dict[str, Any], mutant: Mutant) -> bool:
    return not mutant.at_import and not set(mutant.statement).isdisjoint(seen["lines"].get(mutant.file, []))


def choose(mutant: Mutant, known: dict[str, Any], patience: float) -> tuple[list[str], float]:
    """The tests that execute the changed statement, quick ones first, and their seconds: no more than patience.

    Tests stay together with others of their file, whose fixtures they may share. What no test executes may be
    executed by importing the package: it concerns every test, first those that execute others of the file's lines.
    """
    some = any(executes(seen, mutant) for seen in known.values())
    chosen: dict[str, list[str]] = defaultdict(list)
    total, setup = 0.0, defaultdict[str, float](float)
    for test, seen in known.items():
        setup[test.split("::")[0]] = max(setup[test.split("::")[0]], seen["setup"])
    for test, seen in sorted(
        known.items(), key=lambda t: (mutant.file not in t[1]["lines"], t[1]["seconds"])
    ):
        file = test.split("::")[0]
        seconds = seen["seconds"] + (0 if file in chosen else setup[file])
        if (
            (executes(seen, mutant) or not some)
            and not seen["failed"]
            and (not chosen or total + seconds <= patience)
        ):
            chosen[file].append(test)
            total += seconds
    return [test for tests in chosen.values() for test in tests], total


def run(session: Any, items: list[Any], to_the_end: bool = False) -> int:
    """Run the tests; whether one failed."""
    before = session.testsfailed  # files that could not be read
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed > before and not to_the_end:
            return 1
    return 0


def forked(work: Callable[[], int], seconds: float | None = None) -> bool:
    """Do the work in a process of its own; return whether it fails or needs more than these seconds of CPU time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if seconds:
                os.setpgid(0, 0)
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    deadline, ended, status = time.monotonic() + 60 + 10 * (seconds or 1e6), 0, 1
    while not ended and time.monotonic() < deadline:
        time.sleep(0.005)
        ended, status = os.waitpid(child, os.WNOHANG)
    if seconds:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with all that it may have started
        if not ended:
            os.waitpid(child, 0)
    return not ended or status != 0

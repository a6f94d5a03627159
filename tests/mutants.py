"""Plant one fault at a time in a copy of the package, and see whether a test notices.

python tests/mutants.py                               # every target, every fault: hours
python tests/mutants.py --only query/pool.py data/    # some files or folders
python tests/mutants.py --sample 30                   # of each file 30, drawn by --seed
python tests/mutants.py --resume                      # skip what earlier runs have seen noticed

The nearest tests are run first: those of the file (`a/b.py` has `tests/a/test_b.py`), those of its folder, then
the wider set of TARGETS; of each only tests that execute the changed line, the quickest first. Torch is imported
once, and every mutant is a fork of that process. Faults that mutants.toml lists as equivalent are skipped; those
it lists as survivors count as not noticed. Annotations, decorators, assertions, texts of messages and zip's
`strict` are left alone.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/fedactive")
CACHE = ROOT / ".mutants"  # what tests execute, and which mutants were noticed
LOG = CACHE / "noticed"
RUNS = ["tests/test_client.py", "tests/golden/test_runs.py"]  # whole runs, whose numbers are known
TARGETS = {  # what is mutated, and where to look when the nearest tests do not notice
    "query/": RUNS,
    "federated/": ["tests/engines/test_parallel.py", *RUNS],
    "data/": ["tests/laboratory/test_split.py", *RUNS],
    "client.py": ["tests/engines/test_parallel.py", "tests/laboratory/test_split.py", *RUNS],
    "loop.py": RUNS,
    "analysis/significance.py": ["tests/paper/test_claims.py", "tests/paper/test_paper_tables.py"],
    "analysis/diversity.py": ["tests/query/strategies/test_logo.py"],
    "paper/claims.py": ["tests/paper/test_document.py"],
    "sites/coordinator/checks.py": ["tests/sites/coordinator/test_federation.py"],
}

EQUALITY = {"Eq": "NotEq", "NotEq": "Eq", "In": "NotIn", "NotIn": "In", "Is": "IsNot", "IsNot": "Is"}
COMPARISON = EQUALITY | {"Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt"}
ARITHMETIC = {"Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Div", "Mod": "FloorDiv"}
ARITHMETIC |= {"Pow": "Mult", "BitAnd": "BitOr", "BitOr": "BitAnd"}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "round": "int", "sorted": "list"}
FUNCTIONS |= {"abs": "float", "reversed": "list"}
PAIRS = ["min max", "any all", "amin amax", "argmin argmax", "floor ceil", "sum mean", "minimum maximum"]
PAIRS += ["zeros ones", "zeros_like ones_like", "clamp_min clamp_max", "clamp_min_ clamp_max_", "first last"]
METHODS = {"round": "floor", "var": "std"}
for one, other in map(str.split, PAIRS):
    METHODS |= {one: other, other: one}
OUT_OF_TIME = -1
LEFT_ALONE = ("decorator_list", "annotation", "returns")
HEAVY = ["matplotlib.pyplot", "pandas", "pyarrow.parquet", "scipy.stats", "sklearn.cluster", "torch"]


@dataclass(frozen=True)
class Mutant:
    file: str  # below the package
    line: int
    statement: range  # its lines, without what it encloses
    at_import: bool  # outside all functions: tests do not execute it by themselves
    code: str  # the line
    change: str
    source: str  # of the whole file

    @property
    def key(self) -> str:
        return digest(self.file.encode(), self.source.encode())


def variants(node: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """What a tired programmer could have written: the part of the node that is replaced, and by what."""

    def other(**fields: Any) -> tuple[Any, ast.AST]:
        new = deepcopy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        return node, new

    match node:
        case ast.Compare(ops=[op, *rest]) if type(op).__name__ in COMPARISON:
            yield other(ops=[getattr(ast, COMPARISON[type(op).__name__])(), *rest])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op).__name__ in ARITHMETIC:
            yield other(op=getattr(ast, ARITHMETIC[type(op).__name__])())
        case ast.BoolOp(op=op):
            yield other(op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield node, operand
        case ast.Constant(value=bool() as value):
            yield other(value=not value)
        case ast.Constant(value=int() as value):
            yield other(value=value + 1)
        case ast.Constant(value=float() as value):
            yield other(value=2 * value if value else 1.0)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            yield other(func=ast.Name(FUNCTIONS[name]))
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in METHODS:
            yield other(func=ast.Attribute(value, METHODS[name]))
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield other(value=ast.Constant(None))
        case ast.Break():
            yield node, ast.Continue()
        case ast.Continue() | ast.Raise() | ast.Expr(value=ast.Call()):
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass()
    conditions = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", [])
    for test in conditions:
        turned = isinstance(test, ast.Compare) and type(test.ops[0]).__name__ in EQUALITY
        if not turned and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            yield test, ast.UnaryOp(ast.Not(), test)


def is_target(file: str | Path) -> bool:
    return str(file).startswith(tuple(TARGETS))


def digest(*parts: bytes) -> str:
    return sha256(b"".join(parts)).hexdigest()[:16]


def same(one: str, other: str) -> bool:
    """Whether two sources mean the same."""
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return False


def mutants(file: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its text."""
    source = (ROOT / PACKAGE / file).read_bytes()
    rows = source.splitlines(keepends=True)
    starts = [sum(map(len, rows[:n])) for n in range(len(rows))]

    def mutant(old: Any, new: ast.AST, statement: Any, at_import: bool) -> Mutant:
        begin, end = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
        bodies = [part.lineno - 1 for part in getattr(statement, "body", [])]
        head = range(statement.lineno, max(statement.lineno, min([statement.end_lineno, *bodies])) + 1)
        text = ast.unparse(new)
        bare, safe = ((source[:begin] + t.encode() + source[end:]).decode() for t in (text, f"({text})"))
        whole = bare if isinstance(new, ast.stmt) or same(bare, safe) else safe
        code, change = (lines.splitlines()[old.lineno - 1].strip() for lines in (source.decode(), whole))
        return Mutant(file, old.lineno, head, at_import, code, change, whole)

    def visit(node: ast.AST, statement: ast.AST, at_import: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        statement = node if isinstance(node, ast.stmt) else statement
        for old, new in variants(node):
            yield mutant(old, new, statement, at_import)
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
            return
        for name, value in ast.iter_fields(node):
            local = isinstance(node, ast.FunctionDef | ast.Lambda) and name == "body"
            for child in value if isinstance(value, list) else [value]:
                spared = isinstance(child, ast.keyword) and child.arg == "strict"
                if isinstance(child, ast.AST) and not spared and name not in LEFT_ALONE:
                    yield from visit(child, statement, at_import and not local)

    yield from visit(ast.parse(source), ast.Pass(), True)


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
        package = f"{self.laboratory.place / PACKAGE}/"
        functions = [f for f in gc.get_objects() if isinstance(f, FunctionType)]
        alive = [f for f in functions if f.__code__.co_filename.startswith(package)]
        gc.freeze()  # or else collecting in a fork would copy everything
        for mutant in self.mutants:
            chosen, seconds = choose(mutant, known, self.laboratory.patience)
            place = {test: number for number, test in enumerate(chosen)}
            items = sorted((i for i in session.items if i.nodeid in place), key=lambda i: place[i.nodeid])
            codes = new_code(mutant, self.laboratory.path(mutant))
            if not items or codes is None:
                continue

            def planted(items: list[Any] = items, codes: Any = codes) -> int:
                for function in alive:
                    code = function.__code__
                    if new := codes.get((code.co_filename, code.co_qualname, code.co_firstlineno)):
                        function.__code__ = new
                return run(session, items)

            self.laboratory.judge(mutant, planted, seconds)
        return True


class Only:
    """A pytest plugin: only these tests, in this order."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (i for i in items if i.nodeid in self.names), key=lambda i: self.names.index(i.nodeid)
        )


class Laboratory:
    """A copy of the repository in which faults are planted."""

    def __init__(self, place: Path, patience: float) -> None:
        self.place, self.patience = place, patience
        listed = subprocess.check_output(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True
        )
        for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
        targets = [
            path for path in (place / PACKAGE).rglob("*.py") if is_target(path.relative_to(place / PACKAGE))
        ]
        shared = [*targets, *(place / "tests").rglob("conftest.py")]
        self.version = digest(*(path.read_bytes() for path in sorted(shared)))
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
            if self.kept(file).exists():
                known |= json.loads(self.kept(file).read_text())
            else:
                print(f"cannot be run, and is left out: {file}", flush=True)
        for mutant in mutants:  # where no function can be exchanged, the package is imported anew
            chosen, seconds = choose(mutant, known, self.patience)
            if mutant.key not in judged and chosen:
                named = list(dict.fromkeys(test.split("::")[0] for test in chosen))
                only = Only(chosen)
                self.judge(mutant, lambda n=named, o=only: self.pytest(n, o, "-x"), 5 + seconds)
        judged = self.judged()
        return [mutant for mutant in mutants if not judged.get(mutant.key)]

    def judged(self) -> dict[str, bool]:
        return {key: code == "1" for key, code in map(str.split, (self.place / "noticed").open())}

    def judge(self, mutant: Mutant, tests: Callable[[], int], seconds: float) -> None:
        """Write down whether the tests fail, while the mutant is on disk too, for processes that they start."""
        path = self.path(mutant)
        original = path.read_text()
        write(path, mutant.source)
        failed = forked(tests, 5 + 3 * seconds)
        write(path, original)
        with (self.place / "noticed").open("a") as file:
            file.write(f"{mutant.key} {int(failed != 0)}\n")
        if failed:
            with LOG.open("a") as file:
                file.write(f"{mutant.key}{' time' * (failed == OUT_OF_TIME)}\n")

    def kept(self, file: str) -> Path:
        return CACHE / f"{self.version}-{digest(file.encode(), (self.place / file).read_bytes())}.json"

    def record(self, session: Any) -> dict[str, Any]:
        """What each collected test executes; where that is not known, it is run as it is."""
        known: dict[str, Any] = {}
        for file in dict.fromkeys(item.nodeid.split("::")[0] for item in session.items):

            def look(file: str = file) -> int:
                recorder = Recorder(self.place / PACKAGE)
                session.config.pluginmanager.register(recorder)
                run(session, [i for i in session.items if i.nodeid.startswith(f"{file}::")], to_the_end=True)
                self.kept(file).write_text(json.dumps(recorder.tests, default=sorted))
                return 0

            if not self.kept(file).exists() and forked(look):
                raise RuntimeError(f"{file} cannot be run")
            known |= json.loads(self.kept(file).read_text())
        return known

    def pytest(self, files: list[str], plugin: Any, *options: str) -> int:
        with (self.place / "said").open("w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        usual = ["-p", "no:cacheprovider", "-W", "ignore:Module already imported"]
        return int(
            pytest.main([*files, *usual, f"--basetemp={self.place / 'tmp'}", *options], plugins=[plugin])
        )


def write(path: Path, text: str) -> None:
    """Write a source so that Python compiles it anew, which looks at its time in whole seconds."""
    later = int(path.stat().st_mtime) + 1  # than any version before, whichever process wrote that
    path.write_text(text)
    os.utime(path, (later, later))


def choose(mutant: Mutant, known: dict[str, Any], patience: float) -> tuple[list[str], float]:
    """The tests that execute the changed statement, quick ones first, and their seconds: no more than patience.

    Tests stay together with others of their file, whose fixtures they may share.
    """
    chosen: dict[str, list[str]] = defaultdict(list)
    total, setup = 0.0, defaultdict[str, float](float)
    for test, seen in known.items():
        setup[test.split("::")[0]] = max(setup[test.split("::")[0]], seen["setup"])
    # What is outside all functions is used by the file's functions, more likely than by others.
    for test, seen in sorted(
        known.items(), key=lambda t: (mutant.file not in t[1]["lines"], t[1]["seconds"])
    ):
        file = test.split("::")[0]
        touched = mutant.at_import or not set(mutant.statement).isdisjoint(seen["lines"].get(mutant.file, []))
        seconds = seen["seconds"] + (0 if file in chosen else setup[file])
        if touched and not seen["failed"] and (not chosen or total + seconds <= patience):
            chosen[file].append(test)
            total += seconds
    return [test for tests in chosen.values() for test in tests], total


def new_code(mutant: Mutant, path: Path) -> dict[Any, CodeType] | None:
    """What the functions of the file become; None where that is more than exchanging their code."""

    def codes(code: CodeType) -> list[CodeType]:
        inner = [const for const in code.co_consts if isinstance(const, CodeType)]
        return [part for one in inner for part in (one, *codes(one))]

    old, new = (codes(compile(text, path, "exec")) for text in (path.read_text(), mutant.source))
    alike = [(c.co_qualname, c.co_freevars) for c in old] == [(c.co_qualname, c.co_freevars) for c in new]
    names = [(str(path), c.co_qualname, c.co_firstlineno) for c in old]
    return dict(zip(names, new, strict=True)) if alike and not mutant.at_import else None


def run(session: Any, items: list[Any], to_the_end: bool = False) -> int:
    """Run the tests; whether one failed."""
    before = session.testsfailed  # files that could not be read
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed > before and not to_the_end:
            return 1
    return 0


def forked(work: Callable[[], int], seconds: float | None = None) -> int:
    """What the work returns in a process of its own; not 0 if it needs more than these seconds of CPU time."""
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
    return OUT_OF_TIME if not ended or os.WIFSIGNALED(status) else status


def nearest(file: str) -> Iterator[list[str]]:
    """Groups of test files: those of the file, those of its folder, the folder above, the wider set."""
    module = f"fedactive.{file.removesuffix('.py').replace('/', '.')}"
    folder = ROOT / "tests" / Path(file).parent
    inside = sorted(folder.glob("test_*.py") if folder == ROOT / "tests" else folder.rglob("test_*.py"))
    named = re.compile(rf"{re.escape(module)} |import .*\b{Path(file).stem}\b")
    own = [p for p in inside if p.stem == f"test_{Path(file).stem}" or named.search(p.read_text())]
    above = sorted(folder.parent.glob("test_*.py")) if folder.parent != ROOT / "tests" else []
    wider = next(names for target, names in TARGETS.items() if file.startswith(target))
    done: set[Path] = set()
    for group in (own, inside if folder != ROOT / "tests" else [], above, [ROOT / name for name in wider]):
        if new := [path for path in group if path not in done and path.is_file()]:
            yield [str(path.relative_to(ROOT)) for path in new]
        done |= set(group)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(TARGETS), help="files or folders of the package")
    parser.add_argument("--sample", type=int, help="so many mutants of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=20, help="seconds of tests that a mutant is given")
    parser.add_argument("--near", action="store_true", help="only the tests of the file itself: a quick look")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--list", action="store_true", help="only say what would be planted")
    options = parser.parse_args()

    CACHE.mkdir(exist_ok=True)
    listed = tomllib.loads((ROOT / "tests/mutants.toml").read_text())
    spared = {(e["file"], e["code"], c) for e in listed.get("equivalent", []) for c in e["changes"]}
    excused = {(e["file"], e["code"], c) for e in listed.get("survivor", []) for c in e["changes"]}
    seen = set(LOG.read_text().split()) if options.resume and LOG.exists() else set()

    planted: list[Mutant] = []
    stale = set(spared | excused)
    files = sorted(str(path.relative_to(ROOT / PACKAGE)) for path in (ROOT / PACKAGE).rglob("*.py"))
    for file in files:
        if not any(file.startswith(name) for name in options.only) or not is_target(file):
            stale -= {entry for entry in stale if entry[0] == file}
            continue
        found = list(mutants(file))
        stale -= {(file, m.code, m.change) for m in found}
        found = [m for m in found if (file, m.code, m.change) not in spared]
        if options.sample is not None and len(found) > options.sample:
            found = random.Random(f"{options.seed} {file}").sample(found, options.sample)
        planted += found
    for file, code, change in sorted(stale):
        print(f"mutants.toml lists what is no longer there: {file}: {code}: {change}")
    if options.list:
        for m in planted:
            print(f"{m.file}:{m.line}:\n  - {m.code}\n  + {m.change}")
        sys.exit(f"{len(planted)} mutants")

    total, noticed, unexplained = Counter(m.file for m in planted), Counter[str](), 0
    LOG.open("a" if options.resume else "w").close()
    with tempfile.TemporaryDirectory() as place:
        laboratory = Laboratory(Path(place), options.patience)
        begun = time.monotonic()
        for file in total:
            left = [m for m in planted if m.file == file and m.key not in seen]
            for tests in list(nearest(file))[: 1 if options.near else None]:
                before, left = left, laboratory.survivors(tests, left) if left else []
                if before:
                    shown = f"{len(before) - len(left)} of {len(before)} noticed by {tests[0]}"
                    more = f" and {len(tests) - 1} more" * (len(tests) > 1)
                    print(f"[{time.monotonic() - begun:.0f} s] {file}: {shown}{more}", flush=True)
            noticed[file] = total[file] - len(left)
            for m in left:
                excuse = (m.file, m.code, m.change) in excused
                unexplained += not excuse
                print(f"{m.file}:{m.line}:\n  - {m.code}\n  + {m.change}{' (listed)' * excuse}", flush=True)

    print("\nnoticed of planted")
    for file in [*total, "all"]:
        part, whole = (noticed[file], total[file]) if file != "all" else (noticed.total(), total.total())
        print(f"{part:6} of {whole:5} {part / max(1, whole):7.1%}  {file}")
    if unexplained:
        sys.exit(f"{unexplained} survivors are not in mutants.toml")


if __name__ == "__main__":
    main()

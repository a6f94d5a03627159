"""Plant one fault at a time in a copy of the package, and see whether a test notices.

python tests/mutants.py                               # every target, every fault: hours
python tests/mutants.py --only query/pool.py data/    # some files or folders
python tests/mutants.py --sample 30                   # of each file 30, drawn by --seed
python tests/mutants.py --resume                      # skip what earlier runs have seen noticed

The nearest tests are run first: those of the file (`a/b.py` has `tests/a/test_b.py`), those of its folder, then
the wider set of TARGETS; of each only tests that execute the changed line, the quickest first. Torch is imported
once, and every mutant is a fork of that process. Faults that mutants.toml lists as equivalent are left out; those
it lists as survivors are not tried and count as not noticed. Annotations, decorators, assertions, texts of messages
and zip's `strict` are left alone. mutants.md keeps the table that all of this ends with.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.faults import Mutant, mutants
from support.planting import CACHE, LOG, PACKAGE, ROOT, Laboratory

RUNS = ["tests/test_client.py", "tests/golden/test_runs.py"]  # whole runs, whose numbers are known
TARGETS = {  # what is mutated, and where to look when the nearest tests do not notice
    "query/": ["tests/test_registry.py", *RUNS],
    "federated/": ["tests/engines/test_parallel.py", *RUNS],
    "data/": ["tests/laboratory/test_split.py", *RUNS],
    "client.py": [
        "tests/test_memory.py",
        "tests/federated/algorithms/test_ridge.py",
        "tests/laboratory/test_inputs.py",
        *RUNS,
    ],
    "loop.py": RUNS,
    "memory.py": RUNS,
    "pools.py": ["tests/test_memory.py", *RUNS],
    "analysis/ranks.py": [],
    "analysis/verdicts.py": ["tests/paper/test_claims.py"],
    "analysis/label_saving.py": ["tests/benchmark/test_verdict.py"],
    "benchmark/verdict.py": ["tests/benchmark/test_document.py"],
    "analysis/significance.py": ["tests/paper/test_claims.py", "tests/paper/test_paper_tables.py"],
    "analysis/diversity.py": ["tests/query/strategies/test_logo.py"],
    "paper/claims.py": ["tests/paper/test_document.py"],
    "sites/coordinator/checks.py": ["tests/sites/coordinator/test_federation.py"],
    "sites/flower/signatures.py": [],
    "sites/flower/wire.py": ["tests/sites/coordinator/test_federation.py"],
    "sites/privacy.py": ["tests/sites/coordinator/test_federation.py"],
}


def targets() -> list[str]:
    """Every file that is mutated."""
    files = sorted(str(path.relative_to(ROOT / PACKAGE)) for path in (ROOT / PACKAGE).rglob("*.py"))
    return [file for file in files if file.startswith(tuple(TARGETS))]


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

    listed = tomllib.loads((ROOT / "tests/mutants.toml").read_text())
    chosen = [file for file in targets() if file.startswith(tuple(options.only))]
    possible = {file: list(mutants(ROOT / PACKAGE, file)) for file in chosen}
    for entry in [*listed["equivalent"], *listed["survivor"]]:
        if not entry["file"].startswith(tuple(options.only)):
            continue
        for code, change in [
            (code, change) for code, changes in entry["faults"].items() for change in changes
        ]:
            one = entry | {"faults": {code: [change]}}
            if not any(m.is_listed([one]) for m in possible.get(entry["file"], [])):
                print(f"mutants.toml lists what is not there: {entry['file']}: {code}: {change}")
    planted: list[Mutant] = []
    for file, those in possible.items():
        found = [m for m in those if not m.is_listed(listed["equivalent"])]
        if options.sample is not None and len(found) > options.sample:
            found = random.Random(f"{options.seed} {file}").sample(found, options.sample)
        planted += found
    if options.list:
        for m in planted:
            print(f"{m.file}:{m.line}:\n  - {m.code}\n  + {m.change}")
        sys.exit(f"{len(planted)} mutants")

    CACHE.mkdir(exist_ok=True)
    LOG.open("a" if options.resume else "w").close()
    seen = set(LOG.read_text().split())
    total, noticed, unexplained = Counter(m.file for m in planted), Counter[str](), 0
    with tempfile.TemporaryDirectory() as place:
        laboratory = Laboratory(Path(place), targets(), options.patience)
        groups = {file: list(nearest(file)) for file in total}  # of the copy: files may be added meanwhile
        begun = time.monotonic()
        for file in total:
            mine = [m for m in planted if m.file == file and not m.is_listed(listed["survivor"])]
            left = [m for m in mine if m.key not in seen]
            for tests in groups[file][: 1 if options.near else None]:
                before, left = left, laboratory.survivors(tests, left) if left else []
                if before:
                    shown = f"{len(before) - len(left)} of {len(before)} noticed by {tests[0]}"
                    more = f" and {len(tests) - 1} more" * (len(tests) > 1)
                    print(f"[{time.monotonic() - begun:.0f} s] {file}: {shown}{more}", flush=True)
            noticed[file] = len(mine) - len(left)
            unexplained += len(left)
            for m in left:
                print(f"{m.file}:{m.line}:\n  - {m.code}\n  + {m.change}", flush=True)

    print("\n| file | faults | noticed | survivors |\n|---|---:|---:|---:|")
    for file in [*total, "all"]:
        part, whole = (noticed[file], total[file]) if file != "all" else (noticed.total(), total.total())
        print(f"| {file} | {whole} | {part} ({part / max(1, whole):.1%}) | {whole - part} |")
    if unexplained:
        sys.exit(f"{unexplained} survivors are not in mutants.toml")


if __name__ == "__main__":
    main()

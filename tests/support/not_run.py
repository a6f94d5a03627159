"""What the tests of documents do not run, and why. All of it is at least understood by the real command line.

Each line is: the document (a pattern), how the command or the program begins (a regular expression), the reason.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch

DOWNLOAD = "needs a download"
GRID = "is many runs; tutorials/compare.md and tests/sweep run grids"
RUNS = "needs the runs of such a grid; tests/paper and tests/benchmark draw and judge them"
STAYS = "stays until it is stopped; tests/sites and `make field-demo` have it running"
CLUSTER = "needs other machines; tests/sweep/test_on_ray.py and tests/laboratory/test_on_ray.py have a Ray of their own"

COMMANDS = [
    ("*", r"data (get|check) (cifar10|svhn)", DOWNLOAD),
    ("*", r"run (?!.*--dataset)", f"{DOWNLOAD}: it is about CIFAR-10"),
    ("*", r"(run|embed) .*--dataset cifar10", DOWNLOAD),
    ("*", r".*--(on ray|federation flower-simulation)", CLUSTER),
    ("*", r"compare", GRID),
    ("*", r"(benchmark|paper) run", GRID),
    ("*", r"(benchmark|paper) (show|figure|document)", RUNS),
    ("*", r"(coordinator|site) serve", STAYS),
    (
        "*",
        r"coordinator (admit|dismiss|run|stop)",
        "needs a coordinator that serves; tests/sites/flower have one",
    ),
    ("FIELD.md", r"site close DIR RUN", "needs a run that asks for labels; tests/cli/test_sites.py has one"),
    ("tutorials/two-hospitals.md", r"export hub", "needs a run between sites; tests/export has one"),
    ("BACKBONES.md", r"run --dataset features.npz", "needs the features of CIFAR-10"),
    ("BACKBONES.md", r"run --plugin my_backbone.py", "tests/backbones/test_documents.py runs it"),
    ("DATASETS.md", r"run .*texts.npz", "tests/backbones/test_documents.py runs it"),
    ("EXPORT.md", r"(run|export|predict)", "tests/export/test_document.py runs it"),
    ("DATASETS.md", r"run .*path/to/(flowers|images)", "tests/data/test_documents.py runs it"),
    (
        "OPERATIONS.md",
        r"(coordinator|site) \w+ /(var|data)/",
        "is for a machine or a container of its own; FIELD.md's is run",
    ),
]
PROGRAMS = [
    ("README.md", "import fedactive", "tests/test_readme.py runs it"),
    ("START.md", "import fedactive", "tests/test_readme.py runs it"),
    ("USAGE.md", "import fedactive", "tests/test_readme.py runs it"),
    ("DATASETS.md", "import fedactive\nfrom sklearn", "tests/data/test_documents.py runs it"),
    ("DATASETS.md", "from pathlib import Path", "tests/backbones/test_documents.py runs it"),
    ("DATASETS.md", "import numpy as np\nfrom sklearn", "tests/backbones/test_documents.py runs it"),
    ("EXPORT.md", "import fedactive", "tests/export/test_document.py runs it"),
    ("LABELLING.md", "import httpx", "tests/sites/page/test_api.py runs it with a page"),
]
# Programs of others, which are not ours to test.
FOREIGN = {"docker", "ray", "sbatch", "srun", "sqlite3", "rm", "cp", "useradd", "systemctl", "journalctl"}
FOREIGN |= {"python3.11", "source", "export", "pytest"}


def why_not(table: list[tuple[str, str, str]], document: str, beginning: str) -> str:
    """The reason why this is not run; nothing if it is."""
    return next(
        (
            reason
            for pattern, start, reason in table
            if fnmatch(document, pattern) and re.match(start, beginning)
        ),
        "",
    )

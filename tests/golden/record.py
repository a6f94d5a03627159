"""Record the numbers anew: `PYTHONPATH=tests python -m tests.golden.record`, in the root of the repository.

Only when numbers are meant to change; then the difference of `expected.json` tells which did. Run folders of
earlier versions stay as they are. `--check` writes nothing, and fails where anything differs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # as in the tests; before torch is imported

from . import test_field, test_folders, test_runs
from .cases import RUNS
from .outcome import EXPECTED, fingerprint


def record(folder: Path) -> dict[str, Any]:
    def new() -> Path:
        return Path(tempfile.mkdtemp(dir=folder))

    return {
        "arithmetic": {precision: fingerprint(precision) for precision in ("fp32", "bf16")},
        "names": test_runs.names(new()),
        "runs": {name: test_runs.run(settings, new()) for name, settings in RUNS.items()},
        "compare": test_runs.compare(new()),
        "stopped": {name: test_folders.whole(name, new()) for name in test_folders.STOPPED},
        "finished": test_folders.tables_of(test_folders.unpack("finished", new() / "runs")),
        "exported": test_folders.export(new()),
        "field": {name: test_field.field(s, new()) for name, s in test_field.ALGORITHMS.items()},
    }


def written(expected: dict[str, Any]) -> str:
    """JSON with a line for each run, so that a difference shows which run it is in."""
    parts = []
    for part, content in expected.items():
        if isinstance(content, dict):
            lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()]
            parts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
        else:
            parts.append(
                f"{json.dumps(part)}: [\n" + ",\n".join(f"  {json.dumps(x)}" for x in content) + "\n]"
            )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        text = written(record(Path(folder)))
    print(f"{time.monotonic() - begun:.0f} seconds")
    if "--check" in sys.argv:
        sys.exit("there are differences" if text != EXPECTED.read_text() else 0)
    EXPECTED.write_text(text)


if __name__ == "__main__":
    main()

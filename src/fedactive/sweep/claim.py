"""A claim on a run: where several grids share a runs folder, one of them does the run, and all know which.

The claim is a lock on a file beside the run's log, held by the grid. It is taken at once; the run itself
needs seconds to start before it takes the lock of its folder, which also counts: somebody may have started
that run alone. Both locks end with the processes that hold them, so a grid that died has no claims.
"""

from __future__ import annotations

import os
import socket
from datetime import datetime
from pathlib import Path
from typing import TextIO

from fedactive.experiment import Experiment
from fedactive.record.lock import take_lock
from fedactive.record.run_folder import in_use

UNKNOWN = "another process"


def claim_run(experiment: Experiment) -> TextIO | str:
    """Claim this run until the file is closed; if somebody else does the run, say who."""
    path = claim_path(experiment)
    path.parent.mkdir(parents=True, exist_ok=True)
    claim = take_lock(path)
    if claim is None:
        return path.read_text(encoding="utf-8").strip() or UNKNOWN
    if in_use(experiment.folder):
        claim.close()
        return UNKNOWN
    claim.truncate(0)
    claim.write(f"{socket.gethostname()}, process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M}\n")
    claim.flush()
    return claim


def claim_path(experiment: Experiment) -> Path:
    return experiment.runs_dir / "logs" / f"{experiment.name}.claim"

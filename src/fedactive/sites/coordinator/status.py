"""How a run between sites is going: what it is doing now, and what is known of each site.

The run writes it to status.json in its folder; whoever watches the run reads it there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from fedactive.files import write_json

Activity = Literal[
    "starting", "waiting", "embedding", "choosing", "labelling", "training", "stopped", "finished"
]


@dataclass(frozen=True)
class Phase:
    """What a run is doing. `waiting` is for sites that have never been there."""

    activity: Activity
    al_round: int = 0
    fl_round: int = 0  # counted from 1
    fl_rounds: int = 0
    sites: tuple[str, ...] = ()  # that it waits for
    too_few_sites: bool = False  # an FL round waits for more updates
    reason: str = ""  # why it stopped: this must be put right first

    def __str__(self) -> str:
        round_ = f"AL round {self.al_round}"
        more = ", waiting for more sites" if self.too_few_sites else ""
        return {
            "starting": "starting",
            "waiting": f"waiting for {', '.join(self.sites)}",
            "embedding": f"waiting until images are embedded at {', '.join(self.sites)}",
            "choosing": f"{round_}: choosing",
            "labelling": f"{round_}: people are labelling",
            "training": f"{round_}: FL round {self.fl_round} of {self.fl_rounds}{more}",
            "stopped": f"stopped: {self.reason}",
            "finished": "finished",
        }[self.activity]


STARTING, FINISHED = Phase("starting"), Phase("finished")


@dataclass
class Status:
    phase: Phase = STARTING
    sites: dict[str, dict[str, Any]] = field(default_factory=dict)  # by name: counts, rounds, last seen
    accuracy: float | None = None  # of this AL round so far, on all test images; NaN without any
    dropped: list[dict[str, Any]] = field(default_factory=list)  # replies that were not used: time, what
    written: float = 0.0  # seconds since 1970
    dropped_in_all: int = 0
    measured: dict[str, float] = field(default_factory=dict)  # by FL round of this AL round, as text
    measured_in: int = 0  # that AL round


def read_status(folder: Path) -> Status:
    """Read how the run in this folder is going; `starting` if it has not written anything yet."""
    file = folder / "status.json"
    if not file.exists():
        return Status()
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return Status(**content | {"phase": read_phase(content["phase"])})
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return Status()  # it is damaged; the run writes it anew


def read_phase(content: dict[str, Any] | str) -> Phase:
    if isinstance(content, str):  # as version 0.1 wrote it
        return STARTING
    return Phase(**content | {"sites": tuple(content["sites"])})


def write_status(folder: Path, status: Status) -> None:
    write_json(folder / "status.json", asdict(status))

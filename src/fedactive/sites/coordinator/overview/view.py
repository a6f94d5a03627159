"""What the page shows of runs, read from their folders."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedactive.errors import UserError
from fedactive.files import read_json
from fedactive.record.run_reader import read_run
from fedactive.record.tables import DamagedError
from fedactive.sites.coordinator.alerts import is_stalled
from fedactive.sites.coordinator.folder import Coordinator, read_names
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.coordinator.status import Status, read_status
from fedactive.sites.privacy import DELTA, Cover, epsilon, rho_of

WIDTH, HEIGHT, MARGIN = 640, 220, 48  # of a curve


@dataclass(frozen=True)
class Point:
    """An AL round that is measured."""

    al_round: int
    labelled: int
    accuracy: float  # NaN without test images


def run_names(coordinator: Coordinator) -> list[str]:
    """List the runs, those that changed last first."""
    folders = [file.parent for file in (coordinator.folder / "runs").glob("*/sites.json")]
    return [folder.name for folder in sorted(folders, key=changed, reverse=True)]


def changed(folder: Path) -> float:
    file = folder / "status.json"
    return file.stat().st_mtime if file.exists() else 0.0


def summary(coordinator: Coordinator, name: str) -> dict[str, Any]:
    """Return what the list of runs says of one."""
    folder = coordinator.run_folder_of(name)
    status = read_status(folder)
    online = sum(map(is_online, status.sites.values())) if is_going_on(status) else 0
    return {
        "name": name,
        "phase": str(status.phase),
        "labelled": sum(site.get("labelled_in_all", 0) for site in status.sites.values()),
        "accuracy": percent(status.accuracy),
        "sites": f"{online} of {len(read_names(folder))}",
    }


def details(coordinator: Coordinator, name: str, stalled_after: float) -> dict[str, Any]:
    """Return what the page of a run shows."""
    folder = coordinator.run_folder_of(name)
    status, points = read_status(folder), read_points(folder)
    try:
        plan: FieldPlan | None = coordinator.plan(name)
    except UserError:  # a backbone's file that is gone, or a plan of another version
        plan = None
    results = read_json(folder / "by_site.json", "sites", {})
    classes = plan.images.classes if plan else [str(k) for k in range(classes_in(results))]
    return summary(coordinator, name) | {
        "status": status,
        "sites": [
            site_row(name, site, results, is_going_on(status), stalled_after)
            for name, site in status.sites.items()
        ],
        "points": points,
        "curve": curve([(p.labelled, p.accuracy) for p in points]),
        "within": curve(sorted((int(t), a) for t, a in status.measured.items())),
        "within_round": status.measured_in,
        "by_class": by_class(results, classes),
        "confusion": matrix(results, len(classes)),
        "classes": classes,
        "epsilon": spent(plan, status),
        "dropped": status.dropped[::-1],
        "dropped_in_all": status.dropped_in_all,
        "what": what_is_run(plan),
    }


def what_is_run(plan: FieldPlan | None) -> list[tuple[str, str]]:
    """Say what the run is, in the words of its plan."""
    if plan is None:
        return []
    e = plan.experiment
    model = f"{e.model} on {Path(e.backbone).name}" if e.backbone else e.model
    first = f", AL round 1 by {e.first}" if e.first != "random" else ""
    return [
        ("images", f"{e.dataset}, {len(plan.images.classes)} classes"),
        ("chosen by", e.strategy + first),
        ("model", model),
        ("training", f"{e.algorithm}, {e.fl_rounds} FL rounds in each of {e.rounds} AL rounds"),
    ]


def read_points(folder: Path) -> list[Point]:
    """Return the completed AL rounds; none if there is none yet, or it is damaged."""
    try:
        rounds = read_run(folder).al_rounds
    except DamagedError:
        return []
    return [Point(r.al_round, r.labelled, r.measure("accuracy")) for r in rounds]


def site_row(
    name: str, site: dict[str, Any], results: dict[str, Any], going_on: bool, stalled_after: float
) -> dict[str, Any]:
    found, seen = results.get(name), site.get("last_seen")
    presence = "dismissed" if site.get("dismissed") else "online" if is_online(site) else "away"
    if going_on and is_stalled(site, stalled_after, 0.0):
        presence = "stalled"
    elif not going_on:  # nobody looks any more
        presence = "–"
    return {
        "name": name,
        "presence": presence,
        "images": site.get("images", "–"),
        "labelled": site.get("labelled_in_all", 0),
        "pending": site.get("pending", 0),
        "seen": ago(time.time() - seen) if seen else "never",
        "sent": size(site.get("sent", 0)),
        "received": size(site.get("received", 0)),
        "accuracy": share(sum(found["right"]), sum(found["tested"])) if found else "–",
        "tested": sum(found["tested"]) if found else 0,
    }


def by_class(results: dict[str, Any], classes: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return each class with its accuracy and the number of its test images, over all sites."""
    right, tested = add_up(results, "right", len(classes)), add_up(results, "tested", len(classes))
    return [(name, share(right[k], tested[k]), tested[k]) for k, name in enumerate(classes)]


def matrix(results: dict[str, Any], classes: int) -> list[list[int]]:
    """Return the confusion matrix of all sites; empty if no site tells it."""
    flat = add_up(results, "confusion", classes**2)
    rows = [flat[k * classes : (k + 1) * classes] for k in range(classes)]
    return rows if sum(flat) else []


def add_up(results: dict[str, Any], what: str, length: int) -> list[int]:
    lists = [site[what] for site in results.values() if len(site[what]) == length]
    return [sum(counts) for counts in zip([0] * length, *lists, strict=True)]


def classes_in(results: dict[str, Any]) -> int:
    return max((len(site["tested"]) for site in results.values()), default=0)


def spent(plan: FieldPlan | None, status: Status) -> str:
    """Say what the updates so far have cost the site that sent most."""
    if plan is None or not plan.rules.clip:
        return "none: updates are sent as they are"
    if not plan.rules.noise:
        return "none: updates are clipped, without noise"
    updates = max((site.get("updates", 0) for site in status.sites.values()), default=0)
    rho = updates * rho_of(Cover(plan.rules.clip, plan.rules.noise))
    return f"{epsilon(rho):.3g} at δ = {DELTA:g}, after {updates} updates" if updates else "0: no update yet"


def curve(points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Place points in a picture: x from the first to the last, y from 0 to 1."""
    known = [(x, y) for x, y in points if not math.isnan(y)]
    if len(known) < 2:
        return {}
    low, high = known[0][0], known[-1][0]
    across, up = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    placed = [
        (round(MARGIN + across * (x - low) / (high - low or 1), 1), round(HEIGHT - MARGIN - up * y, 1))
        for x, y in known
    ]
    lines = [(f"{k / 4:.0%}", HEIGHT - MARGIN - up * k / 4) for k in range(5)]
    return {"placed": placed, "low": f"{low:g}", "high": f"{high:g}", "lines": lines}


# --- numbers as people read them


def is_going_on(status: Status) -> bool:
    return status.phase.activity not in ("stopped", "finished")


def is_online(site: dict[str, Any]) -> bool:
    return bool(site.get("online"))


def percent(accuracy: float | None) -> str:
    return "unknown" if accuracy is None or math.isnan(accuracy) else f"{accuracy:.2%}"


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def ago(seconds: float) -> str:
    seconds = max(0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


def size(count: int) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count = count / 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"

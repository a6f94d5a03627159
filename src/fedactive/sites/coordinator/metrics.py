"""How the coordinator and its runs are, for Prometheus and for /health."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from fedactive.sites.certificates import has_ended, read_certificate
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.status import Status, read_status
from fedactive.sites.monitor import Reading, single

# What is known of each site in a run: in status.json, as a metric, and what that is.
OF_SITES = (
    ("online", "fedactive_site_online", "Whether the site is connected."),
    ("last_seen", "fedactive_site_last_answer_seconds", "When the site last answered, since 1970."),
    ("labelled_in_all", "fedactive_site_labels", "Labels of the site."),
    ("pending", "fedactive_site_pending", "Images that wait for its people in this AL round."),
    ("received", "fedactive_site_received_bytes", "Tensors received from it, in bytes."),
    ("sent", "fedactive_site_sent_bytes", "Tensors sent to it, in bytes."),
)


def troubles(coordinator: Coordinator) -> list[str]:
    """Say what does not work: then /health fails."""
    found = []
    if not coordinator.is_serving():
        found.append("the SuperLink is not there, and is being started")
    if has_ended(coordinator.folder / "server.pem"):
        found.append("the certificate has ended")
    return found


def read_statuses(coordinator: Coordinator) -> dict[str, Status]:
    """Return how each run that is going on is, by its name."""
    return {name: read_status(coordinator.run_folder_of(name)) for name in coordinator.wanted()}


def metrics(coordinator: Coordinator) -> Iterable[Reading]:
    end = read_certificate(coordinator.folder / "server.pem").not_valid_after_utc.timestamp()
    yield single("fedactive_up", "Whether the SuperLink serves.", float(not troubles(coordinator)))
    yield single("fedactive_certificate_end_seconds", "When the certificate ends, since 1970.", end)
    yield single("fedactive_sites_admitted", "Sites that may connect.", float(len(coordinator.sites())))
    statuses = read_statuses(coordinator)
    yield single("fedactive_runs", "Runs that are going on.", float(len(statuses)))
    yield from of_runs(statuses)
    for key, name, help in OF_SITES:
        yield Reading(name, help, list(of_sites(statuses, key)))


def of_runs(statuses: dict[str, Status]) -> Iterator[Reading]:
    def each(name: str, help: str, values: dict[str, float], kind: str = "gauge") -> Reading:
        return Reading(name, help, [({"run": run}, value) for run, value in values.items()], kind)

    rounds = {run: float(status.phase.al_round) for run, status in statuses.items()}
    yield each("fedactive_al_round", "AL round that is going on.", rounds)
    fl_rounds = {run: float(status.phase.fl_round) for run, status in statuses.items()}
    yield each("fedactive_fl_round", "FL round that is going on.", fl_rounds)
    known = {run: s.accuracy for run, s in statuses.items() if s.accuracy is not None}
    accuracy = {run: value for run, value in known.items() if not math.isnan(value)}  # without test images
    yield each("fedactive_accuracy", "Test accuracy of this AL round so far.", accuracy)
    dropped = {run: float(status.dropped_in_all) for run, status in statuses.items()}
    yield each("fedactive_dropped_total", "Replies and models that were not used.", dropped, "counter")


def of_sites(statuses: dict[str, Status], key: str) -> Iterator[tuple[dict[str, str], float]]:
    for run, status in statuses.items():
        site: dict[str, Any]
        for name, site in status.sites.items():
            if key in site:
                yield {"run": run, "site": name}, float(site[key])

"""What somebody should know at once: a line in the log, and a message to a webhook.

A site is stalled that does not answer what it was asked, or is away, for too long. Replies that are dropped
and a collapse of accuracy are in the run's status. A site whose replies are dropped is asked again every few
seconds: the same cause is told of once, and again only after it has not come for as long.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import httpx

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.metrics import read_statuses
from fedactive.sites.coordinator.status import Status

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 10.0
SECONDS_TO_SEND = 10.0


class Watch:
    def __init__(self, coordinator: Coordinator, seconds: float, webhook: str = "") -> None:
        """`seconds` without an answer make a site stalled; `webhook` is a URL, or empty."""
        self.coordinator = coordinator
        self.seconds = seconds
        self.webhook = webhook
        self.begun = time.time()
        self.told: dict[str, float] = {}  # by run: the time of the latest drop that was looked at
        self.lasting: dict[tuple[str, str], float] = {}  # by run and cause: when replies were last dropped
        self.stalled: set[tuple[str, str]] = set()  # run and site

    def keep_looking(self, stopped: threading.Event) -> None:
        while not stopped.wait(SECONDS_BETWEEN_LOOKS):
            self.look()

    def look(self) -> None:
        for run, status in read_statuses(self.coordinator).items():
            for item in status.dropped:
                if item["time"] > self.told.get(run, self.begun):
                    self.told[run] = item["time"]
                    self.look_at_dropped(run, item)
            for name in status.sites:
                self.look_at(run, name, status)

    def look_at_dropped(self, run: str, item: dict[str, Any]) -> None:
        sentence = str(item["what"])
        cause = run, sentence.rpartition(" (")[0] or sentence  # behind it stands the round
        before, self.lasting[cause] = self.lasting.get(cause, 0.0), item["time"]
        if item["time"] - before > self.seconds:
            self.alert(item.get("kind", "dropped"), run, sentence)

    def look_at(self, run: str, name: str, status: Status) -> None:
        was, now = (run, name) in self.stalled, is_stalled(status.sites[name], self.seconds, self.begun)
        if now and not was:
            self.stalled.add((run, name))
            minutes = f"{self.seconds / 60:g} minutes"
            self.alert("stalled", run, f"{name} has not answered for {minutes} ({status.phase})")
        if was and not now:
            self.stalled.remove((run, name))
            self.alert("recovered", run, f"{name} answers again")

    def alert(self, kind: str, run: str, sentence: str) -> None:
        log.warning("alert (%s): %s: %s", kind, run, sentence)
        if not self.webhook:
            return
        # "text" is what chat systems show.
        content = {"text": f"fedactive: {run}: {sentence}", "kind": kind, "run": run, "time": time.time()}
        try:
            httpx.post(self.webhook, json=content, timeout=SECONDS_TO_SEND).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            log.warning("the alert did not reach the webhook: %s", type(error).__name__)


def is_stalled(site: dict[str, Any], seconds: float, begun: float) -> bool:
    """Return whether a site is away, or owes an answer, for so long, counted from `begun` at the earliest."""
    if site.get("dismissed"):
        return False
    seen, asked = site.get("last_seen", 0.0), site.get("asked", 0.0)
    since = asked if site.get("online") else seen
    owes = asked > seen or not site.get("online")
    return owes and time.time() - max(since, begun) > seconds

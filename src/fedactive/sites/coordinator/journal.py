"""What the coordinator must remember of a run beside its checkpoint, and what it shows of it meanwhile.

field.json     the run's name towards the sites, how many images they had at the beginning and at most since,
               the budget, how features are standardised, when rounds of labelling began, the mean of what
               sites said of themselves
by_site.json   how the latest global model did at each site
status.json    how the run is going (see status.py)
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedactive.evaluation import Evaluation
from fedactive.files import write_json
from fedactive.record.state import by_fl_round, mean_of_last
from fedactive.sites.coordinator.status import STARTING, Phase, read_status, write_status

log = logging.getLogger(__name__)

DROPPED_SHOWN = 20  # the latest


class Journal:
    """Sites are numbered from 0, in the order of their names in `sites`."""

    def __init__(self, folder: Path, sites: Sequence[str]) -> None:
        self.folder = folder
        self.sites = sites
        self.decided: dict[str, Any] = {"run": f"{folder.name}-{secrets.token_hex(4)}", "opened": {}}
        if (folder / "field.json").exists():
            self.decided = json.loads((folder / "field.json").read_text())
        else:
            self.write_decided()
        # A run that goes on shows what was known of its sites, until they answer again.
        self.status = read_status(folder)
        self.status.phase = STARTING
        known = self.status.sites
        self.status.sites = {name: known.get(name, {}) | {"online": False} for name in sites}

    # --- decisions, made once

    @property
    def run(self) -> str:
        return str(self.decided["run"])

    @property
    def budgets(self) -> tuple[int, ...] | None:
        """The labels of each site, by AL round; the last is that of all later ones."""
        decided = self.decided.get("budget")
        return (decided,) if isinstance(decided, int) else decided and tuple(decided)  # once one for all

    @property
    def images(self) -> list[int]:
        """How many images each site had at the beginning."""
        return list(self.decided["images"])

    def most_images(self, number: int) -> int:
        """Return how many images a site has had at most: it may get more at any time."""
        since: dict[str, int] = self.decided.get("most_images", {})
        return max(self.images[number], since.get(str(number), 0))

    def count_images(self, number: int, images: int) -> None:
        """Record how many images a site has now."""
        if images > self.most_images(number):
            self.decided.setdefault("most_images", {})[str(number)] = images
            self.write_decided()
        self.update_site(number, images=images)

    @property
    def standardisation(self) -> str:
        """How sites standardise the features of their images, as text; empty if they use none."""
        return str(self.decided.get("standardisation", ""))

    def decide(self, images: Sequence[int], budgets: Sequence[int], standardisation: str = "") -> None:
        self.decided |= {"images": list(images), "budget": list(budgets)}
        self.decided |= {"standardisation": standardisation} if standardisation else {}
        self.write_decided()
        for number, count in enumerate(images):
            self.update_site(number, images=count)

    def agreed(self, name: str) -> list[float] | None:
        """Return the mean of what sites said of themselves; None if they did not, or had nothing to say.

        `name` is "agreed" for a mean that lasts, and "agreed R" for that of AL round R.
        """
        return self.decided.get(name)

    def agree(self, name: str, mean: list[float] | None) -> None:
        self.decided[name] = mean
        self.write_decided()

    def deadline(self, al_round: int, seconds: float) -> float | None:
        """Return when the labelling of this round ends at the latest, in seconds since 1970; None is never.

        The `seconds` that the plan gives now count from when the round began; 0 is no deadline.
        """
        opened: dict[str, float] = self.decided["opened"]
        if str(al_round) not in opened:
            opened[str(al_round)] = time.time()
            self.write_decided()
        return opened[str(al_round)] + seconds if seconds else None

    def write_decided(self) -> None:
        write_json(self.folder / "field.json", self.decided)

    # --- how it is going

    def enter(self, phase: Phase) -> None:
        """Record what the run is doing now."""
        if phase != self.status.phase:
            log.info("%s", phase)
        self.status.phase = phase
        self.write_status()

    def set_online(self, numbers: set[int]) -> None:
        for k, name in enumerate(self.sites):
            self.status.sites[name]["online"] = k in numbers

    def set_seen(self, number: int) -> None:
        """Record that a site has answered just now."""
        self.update_site(number, last_seen=time.time())

    def add_to(self, number: int, what: str, count: int) -> None:
        """Count bytes that were sent or received, or updates."""
        site = self.status.sites[self.sites[number]]
        site[what] = site.get(what, 0) + count

    def set_results(
        self, al_round: int, fl_round: int, results: Mapping[int, tuple[Evaluation, list[int]]]
    ) -> None:
        """Keep how the latest global model did at each site, and what it took for what."""
        sites = {self.sites[k]: asdict(e) | {"confusion": matrix} for k, (e, matrix) in results.items()}
        for counts in sites.values():
            del counts["loss"]  # NaN without test images, which JSON does not have
        content = {"al_round": al_round, "fl_round": fl_round + 1, "sites": sites}
        write_json(self.folder / "by_site.json", content)

    def update_site(self, number: int, **values: Any) -> None:
        self.status.sites[self.sites[number]] |= values

    def set_accuracy(self, al_round: int, fl_round: int, value: float) -> None:
        """Record a measurement. A run's accuracy is one number everywhere: the mean of its last FL rounds."""
        status = self.status
        if al_round != status.measured_in:
            status.measured, status.measured_in = {}, al_round
        status.measured[str(fl_round + 1)] = value
        rounds = list(map(int, status.measured))
        status.accuracy = mean_of_last(by_fl_round(rounds, list(status.measured.values())))
        if not math.isnan(value):
            so_far = f"; {100 * status.accuracy:.2f}% is the mean of the last FL rounds"
            log.info("test accuracy %.2f%%%s", 100 * value, so_far)
        self.write_status()

    def add_dropped(self, sentence: str, kind: str = "dropped") -> None:
        """Record why a site's reply, or a model, was not used; `collapse` is the kind of the latter."""
        log.warning("dropped: %s", sentence)
        self.status.dropped_in_all += 1
        self.status.dropped = [*self.status.dropped, {"time": time.time(), "what": sentence, "kind": kind}][
            -DROPPED_SHOWN:
        ]
        self.write_status()

    def write_status(self) -> None:
        self.status.written = time.time()
        write_status(self.folder, self.status)

"""What the coordinator must remember of a run beside its checkpoint, and what it shows of it meanwhile.

field.json     the run's name towards the sites, their images, the budget, when rounds of labelling began
status.json    how it is going, site by site, for whoever watches; a message every time it changes
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedactive.files import write_json

log = logging.getLogger(__name__)


def read_status(folder: Path) -> dict[str, Any]:
    """How the run in this folder is going; `starting`, if it has not said anything yet."""
    nothing: dict[str, Any] = {"phase": "starting", "sites": {}, "dropped": []}
    file = folder / "status.json"
    return nothing | json.loads(file.read_text()) if file.exists() else nothing


class Journal:
    def __init__(self, folder: Path, sites: Sequence[str]) -> None:
        self.folder = folder
        self.sites = sites
        self.decided: dict[str, Any] = {"run": f"{folder.name}-{secrets.token_hex(4)}", "opened": {}}
        if (folder / "field.json").exists():
            self.decided = json.loads((folder / "field.json").read_text())
        else:
            write_json(folder / "field.json", self.decided)
        # A run that goes on shows what was known of its sites, until they are heard again.
        self.status: dict[str, Any] = read_status(folder) | {"phase": "starting"}
        known = self.status["sites"]
        self.status["sites"] = {name: known.get(name, {}) | {"online": False} for name in sites}

    # --- decisions, made once

    @property
    def run(self) -> str:
        return str(self.decided["run"])

    @property
    def budget(self) -> int | None:
        return self.decided.get("budget")

    @property
    def images(self) -> list[int]:
        """How many each site held at the beginning."""
        return list(self.decided["images"])

    def decide(self, images: Sequence[int], budget: int) -> None:
        self.decided |= {"images": list(images), "budget": budget}
        write_json(self.folder / "field.json", self.decided)

    def deadline(self, al_round: int, seconds: float) -> float | None:
        """When the labelling of this round ends at the latest, in seconds since 1970; 0 seconds: never.

        The plan may have another end for it now than it had when the round began.
        """
        opened: dict[str, float] = self.decided["opened"]
        if str(al_round) not in opened:
            opened[str(al_round)] = time.time()
            write_json(self.folder / "field.json", self.decided)
        return opened[str(al_round)] + seconds if seconds else None

    # --- how it is going

    def phase(self, text: str) -> None:
        if text != self.status["phase"]:
            log.info(text)
        self.status["phase"] = text
        self.show()

    def online(self, numbers: set[int]) -> None:
        for k, name in enumerate(self.sites):
            self.status["sites"][name]["online"] = k in numbers

    def heard(self, number: int) -> None:
        """A site has answered."""
        self.note(number, last_seen=time.time())

    def note(self, number: int, **values: Any) -> None:
        self.status["sites"][self.sites[number]] |= values

    def accuracy(self, value: float) -> None:
        log.info("test accuracy %.2f%%", 100 * value)
        self.status["accuracy"] = value
        self.show()

    def dropped(self, number: int, reason: object) -> None:
        """An answer was not used, and why."""
        sentence = f"{self.sites[number]} {reason}"
        log.warning("dropped: %s", sentence)
        self.status["dropped"] = [*self.status["dropped"], {"time": time.time(), "what": sentence}][-20:]
        self.show()

    def show(self) -> None:
        write_json(self.folder / "status.json", self.status | {"written": time.time()})

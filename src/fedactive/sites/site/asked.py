"""What a run has asked a site's people for: a file for each AL round, and a round of the label store.

    round-R.json     the images that AL round R asked for, in order, how people are asked (strategy, overlap,
                     deadline), what the global model took them for, and how good the local-only model was

The file comes first. A label store that was restored from a backup may lack rounds of which there is a file;
people are asked for these again.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedactive.files import write_json
from fedactive.sites.labels.store import LabelStore


class AskedRounds:
    def __init__(self, run: str, folder: Path, store: LabelStore, planned: int) -> None:
        """`planned` is how many rounds the run has, as far as its plan says now."""
        self.run = run
        self.folder = folder
        self.store = store
        self.planned = planned

    def find(self, al_round: int) -> dict[str, Any] | None:
        return read_round(self.folder, al_round)

    def until(self, al_round: float = math.inf) -> dict[int, dict[str, Any]]:
        """The rounds up to this one, or all, in the order of asking."""
        files = self.folder.glob("round-*.json")
        rounds = {int(file.stem.removeprefix("round-")): json.loads(file.read_text()) for file in files}
        return {number: rounds[number] for number in sorted(rounds) if number <= al_round}

    def samples_until(self, al_round: int) -> list[int]:
        return [sample for asked in self.until(al_round).values() for sample in asked["samples"]]

    def keep(self, al_round: int, asked: dict[str, Any]) -> None:
        write_json(self.folder / f"round-{al_round}.json", asked)

    def open_missing(self) -> None:
        """Ask people for all that was decided on and that the label store does not know, or no longer.

        Of all rounds it hears how many there are.
        """
        for al_round, asked in self.until().items():
            if self.store.rounds.find(self.run, al_round) is None:
                due = asked["deadline"]
                self.store.rounds.open(
                    self.run,
                    al_round,
                    asked["samples"],
                    asked["strategy"],
                    None if due is None else datetime.fromtimestamp(due, UTC),
                    overlap=asked["overlap"],
                )
        self.store.rounds.plan(self.run, self.planned)

    def labels_at_close(self, al_round: int) -> dict[int, int]:
        """The labels as they were when the labelling of this round was closed: it is now at the latest."""
        self.open_missing()
        rounds = list(self.until(al_round))
        for asked in rounds:
            self.store.rounds.close(self.run, asked)  # changes nothing where it is closed
        return self.store.labels_at_close(self.run, rounds[-1]) if rounds else {}


def read_round(folder: Path, al_round: int) -> dict[str, Any] | None:
    """What was asked for in this round; None if this site was not asked."""
    file = folder / f"round-{al_round}.json"
    return json.loads(file.read_text()) if file.exists() else None

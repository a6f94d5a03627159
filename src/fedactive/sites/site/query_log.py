"""What a run asked the people of a site: a file for each AL round, and a round of the label store.

    round-R.json     the images that AL round R asked for, in order, how people are asked (strategy, overlap,
                     deadline), what the global model took them for, how good the local-only model was; how
                     many images were known then, and which of them were gone

The file is written first. A label store that was restored from a backup may lack rounds that have a file;
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


class QueryLog:
    def __init__(
        self,
        run: str,
        folder: Path,
        store: LabelStore,
        planned: int,
        window: tuple[float, float] | None = None,
    ) -> None:
        """`planned` is how many rounds the run has by its present plan, `window` how it sees deep images."""
        self.run = run
        self.folder = folder
        self.store = store
        self.planned = planned
        self.window = window

    def find(self, al_round: int) -> dict[str, Any] | None:
        return read_query(self.folder, al_round)

    def until(self, al_round: float = math.inf) -> dict[int, dict[str, Any]]:
        """Return the queries up to this round, or all, by round."""
        files = self.folder.glob("round-*.json")
        queries = {int(file.stem.removeprefix("round-")): json.loads(file.read_text()) for file in files}
        return {number: queries[number] for number in sorted(queries) if number <= al_round}

    def samples_until(self, al_round: int) -> list[int]:
        return [sample for query in self.until(al_round).values() for sample in query["samples"]]

    def write(self, al_round: int, query: dict[str, Any]) -> None:
        write_json(self.folder / f"round-{al_round}.json", query)

    def open_missing(self) -> None:
        """Open a round of the label store for each query that it does not know, or no longer knows.

        The store also learns how many rounds the run has, and in which window it sees deep images.
        """
        for al_round, query in self.until().items():
            if self.store.rounds.find(self.run, al_round) is None:
                due = query["deadline"]
                self.store.rounds.open(
                    self.run,
                    al_round,
                    query["samples"],
                    query["strategy"],
                    None if due is None else datetime.fromtimestamp(due, UTC),
                    overlap=query["overlap"],
                )
        self.store.rounds.set_planned(self.run, self.planned)
        self.store.rounds.set_window(self.run, self.window)

    def labels_at_close(self, al_round: int) -> dict[int, int]:
        """Close the labelling of this round, unless it is closed, and return the labels of that moment."""
        self.open_missing()
        rounds = list(self.until(al_round))
        for number in rounds:
            self.store.rounds.close(self.run, number)  # changes nothing where it is closed
        return self.store.labels_at_close(self.run, rounds[-1]) if rounds else {}


def read_query(folder: Path, al_round: int) -> dict[str, Any] | None:
    """Return what a run asked for in this round; None if this site was not asked."""
    file = folder / f"round-{al_round}.json"
    return json.loads(file.read_text()) if file.exists() else None

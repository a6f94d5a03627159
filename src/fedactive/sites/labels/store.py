"""The label store of a site: what the trainer asks for, what people answered, and the labels that follow.

Labels belong to images, and rounds only ask for them: an image that is asked for twice keeps its answer.

The label of an image is the latest decision of a disagreement about it, unless that was undone. Otherwise it
is what more than half of its answers say, one answer per person, without skips (agreement.verdict). In a
round with overlap k an image is pending until k people, or all there are, have answered and a majority
agrees. The label on which the answers so far agree counts already: no work is lost at a deadline.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from fedactive.sites.labels.access_log import AccessLog
from fedactive.sites.labels.annotators import Annotators
from fedactive.sites.labels.answers import Answers, standing
from fedactive.sites.labels.database import Database, StoreError
from fedactive.sites.labels.gold import Gold
from fedactive.sites.labels.images import IS_GONE, Images
from fedactive.sites.labels.imports import Imports
from fedactive.sites.labels.queues import Queues
from fedactive.sites.labels.rounds import Counts, Rounds


class LabelStore:
    """One SQLite file, which several processes and threads may use at the same time.

    Its parts are images, people, rounds, gold questions, queues, answers, imports and the access log. The
    methods return the labels that follow from these.
    """

    def __init__(self, path: Path) -> None:
        self.database = Database(path)
        self.images = Images(self.database)
        self.annotators = Annotators(self.database)
        self.rounds = Rounds(self.database)
        self.gold = Gold(self.database)
        self.queues = Queues(self.database, self.gold)
        self.answers = Answers(self.database, self.rounds, self.queues, self.gold)
        self.imports = Imports(self.database, self.answers)
        self.access_log = AccessLog(self.database)

    def counts(self, run: str, al_round: int) -> Counts:
        """Count what is labelled of a round; all zero if it was never opened."""
        wanted = self.rounds.find(run, al_round)
        return self.rounds.counts(wanted) if wanted else Counts(0, 0, 0, 0, 0)

    def labels(self) -> dict[int, int]:
        """Return the class of every image that any round asked for, that has a label now and is not gone."""
        rows = self.database.rows(
            "SELECT sample, label FROM standing WHERE outcome = 'label'"
            " AND EXISTS (SELECT 1 FROM requests q WHERE q.sample = standing.sample)"
            f" AND NOT {IS_GONE.format('standing')} ORDER BY sample"
        )
        return {row["sample"]: row["label"] for row in rows}

    def labels_at_close(self, run: str, al_round: int) -> dict[int, int]:
        """Return the labels as they were when this round was closed, whatever was answered or undone since.

        So training that is done again gets the same labels. This reads the log itself, also of images that
        are gone.
        """
        sql = "SELECT id, last_event FROM rounds WHERE run = ? AND al_round = ? AND closed IS NOT NULL"
        row = self.database.one(sql, run, al_round)
        if row is None:
            raise StoreError(f"round {al_round} of run {run} is not closed")
        events = defaultdict(list)
        for event in self.answers.events("id <= ? ORDER BY id", row["last_event"]):
            events[event.sample].append(event)
        asked = self.database.rows(
            "SELECT DISTINCT sample FROM requests WHERE round <= ? ORDER BY sample", row["id"]
        )
        labels = {sample: standing(events[sample]).label for (sample,) in asked}
        return {sample: label for sample, label in labels.items() if label is not None}

    def close(self) -> None:
        self.database.close()

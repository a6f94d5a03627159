"""Gold questions: images whose label is certain, asked of others to see how well they label.

They come among the images of a round and look like these. Their answers are events like any others, but no
label follows from them.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.database import Database, SenselessError
from fedactive.sites.labels.images import IS_GONE

EVERY = 10  # of a person's images so many one is a gold question, while there are some


@dataclass(frozen=True)
class Accuracy:
    """How a person answered gold questions."""

    right: int
    wrong: int
    skipped: int  # or flagged

    @property
    def share(self) -> float | None:
        labelled = self.right + self.wrong
        return self.right / labelled if labelled else None


class Gold:
    def __init__(self, database: Database) -> None:
        self.database = database

    def labels(self) -> dict[int, int]:
        return dict(map(tuple, self.database.rows("SELECT sample, label FROM gold")))

    def add(self, annotator: Annotator, sample: int) -> None:
        """Make an image a gold question, with the label that it has; again changes nothing."""
        with self.database.writing():
            found = self.database.one("SELECT outcome, label FROM standing WHERE sample = ?", sample)
            if found is None or found["outcome"] != "label":
                raise SenselessError(f"image {sample} has no label that could be certain")
            self.database.connection.execute(
                "INSERT INTO gold VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET label = excluded.label, annotator = excluded.annotator"
                " WHERE label <> excluded.label",
                (sample, found["label"], annotator.id, time.time()),
            )

    def remove(self, sample: int) -> None:
        """Ask nobody about this image any more; answers that were given to it stay checks."""
        with self.database.writing():
            self.database.connection.execute("DELETE FROM gold WHERE sample = ?", (sample,))

    def asks(self, annotator: Annotator, sample: int) -> bool:
        """Is this image a gold question for this person? It is not if they answered about it otherwise."""
        row = self.database.one(
            "SELECT 1 FROM gold WHERE sample = ? AND annotator <> ? AND NOT EXISTS ("
            " SELECT 1 FROM events WHERE sample = ? AND annotator = ? AND NOT gold AND action <> 'undo'"
            " AND NOT EXISTS (SELECT 1 FROM events u WHERE u.undoes = events.id))",
            *(sample, annotator.id) * 2,
        )
        return row is not None

    def mix(self, annotator: Annotator, samples: list[int]) -> list[int]:
        """Return the samples with gold questions among them, in the same places however often one asks."""
        rows = self.database.rows(
            "SELECT sample FROM gold WHERE annotator <> ? AND NOT EXISTS (SELECT 1 FROM assignments a"
            " WHERE a.sample = gold.sample AND a.annotator = ? AND a.action IS NOT NULL)"
            f" AND NOT {IS_GONE.format('gold')}",
            *(annotator.id,) * 2,
        )
        # In an order that nobody sees in others' answers.
        left = sorted(
            (s for (s,) in rows if s not in samples),
            key=lambda s: random.Random(f"{annotator.id} {s}").random(),
        )
        if not left:
            return samples
        answered = self.database.one(
            "SELECT count(*) FROM assignments WHERE annotator = ? AND action IS NOT NULL", annotator.id
        )[0]
        mixed = list(samples)
        for position in range(-(answered + 1) % EVERY, len(samples), EVERY):
            if left:
                mixed.insert(position, left.pop(0))
        return mixed

    def accuracies(self) -> dict[str, Accuracy]:
        """Count how everybody answered, by name; those who were never asked are missing."""
        rows = self.database.rows(
            "SELECT p.name, sum(a.action = 'label' AND a.label = g.label),"
            " sum(a.action = 'label' AND a.label <> g.label), sum(a.action <> 'label')"
            " FROM assignments a JOIN gold g USING (sample) JOIN annotators p ON p.id = a.annotator"
            " WHERE a.action IS NOT NULL AND EXISTS (SELECT 1 FROM events e"
            "   WHERE e.sample = a.sample AND e.annotator = a.annotator AND e.gold)"
            " GROUP BY p.id ORDER BY p.name"
        )
        return {name: Accuracy(*counts) for name, *counts in rows}

"""What people said about images: a log that only grows, and what follows from it.

A corrected answer is followed by another, and an answer that is taken back by an event that undoes it. So the
log is also the audit trail.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from fedactive.sites.labels.agreement import Action, Outcome, verdict
from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.database import Database, SenselessError, StoreError
from fedactive.sites.labels.gold import Gold
from fedactive.sites.labels.queues import SECONDS_HELD, Queues
from fedactive.sites.labels.rounds import Rounds

MOST_SECONDS = 86_400  # that somebody can have taken over an image
STANDS = "action <> 'undo' AND NOT EXISTS (SELECT 1 FROM events u WHERE u.undoes = events.id)"
COLUMNS = (
    "annotator, sample, action, label, seconds, final, undoes, id, time, saw_guess, import, comment, gold"
)
OTHER_REQUEST = "this key was used for another request before"


class NotAskedError(StoreError):
    """An answer about an image that no round wants labelled."""


class NotTheirsError(StoreError):
    """An answer about an image that is not in this person's queue."""


@dataclass(frozen=True)
class Event:
    annotator: int
    sample: int
    action: Literal["label", "skip", "flag", "undo"]
    label: int | None = None
    seconds: float | None = None  # how long the person took
    final: bool = False  # decides a disagreement
    undoes: int | None = None  # id of the event that is taken back
    id: int = 0  # these three are given by the store
    time: float = 0.0
    saw_guess: bool = False  # the person had seen the model's guess of the image
    imported: int | None = None  # the import it came with
    comment: str | None = None  # why the image was flagged
    gold: bool = False  # answers a gold question


@dataclass(frozen=True)
class Standing:
    """What is known of an image: how many people answered, and their common answer."""

    answers: int
    outcome: Outcome
    label: int | None
    final: bool


class Answers:
    def __init__(self, database: Database, rounds: Rounds, queues: Queues, gold: Gold) -> None:
        self.database = database
        self.rounds = rounds
        self.queues = queues
        self.gold = gold

    def record(
        self,
        annotator: Annotator,
        sample: int,
        action: Action,
        label: int | None = None,
        *,
        seconds: float | None = None,
        final: bool = False,
        comment: str | None = None,
        key: str | None = None,
    ) -> None:
        """Record one person's answer; it is on disk when this returns. The same `key` again changes nothing.

        A `final` answer decides a disagreement, which must exist: then nobody else's answer counts. That is
        for reviewers, and none of them decides a disagreement in which they take part.
        """
        with self.database.writing():
            if key is not None and (before := self._with_key(key)):
                if (before.sample, before.action, before.label) != (sample, action, label):
                    raise SenselessError(OTHER_REQUEST)
                return
            if self.rounds.find_for(sample) is None:
                raise NotAskedError(f"nobody asked for image {sample}")
            if final:
                self._require_decidable(annotator, sample)
            elif not self.queues.include(annotator, sample):
                raise NotTheirsError(f"image {sample} is not in your queue")
            gold = not final and self.gold.asks(annotator, sample)
            event = Event(annotator.id, sample, action, label, seconds, final, comment=comment, gold=gold)
            self._append(event, key)

    def _require_decidable(self, annotator: Annotator, sample: int) -> None:
        if not annotator.decides:
            raise SenselessError("only a reviewer decides disagreements")
        if self.queues.has_answered(annotator, sample):
            raise SenselessError(f"you answered about image {sample} yourself: another reviewer decides")
        if not self.queues.can_be_decided(sample):
            raise SenselessError(f"there is no disagreement about image {sample} to decide")

    def append_all(self, events: Iterable[Event]) -> None:
        """Append what an import brings or takes back, all or nothing; also about images not asked for yet."""
        with self.database.writing():
            for event in events:
                self._append(event, None, hold=False)

    def undo(self, annotator: Annotator, key: str | None = None) -> Event | None:
        """Take back this person's last answer that stands, and return it; None if there is none."""
        with self.database.writing():
            if key is not None and (before := self._with_key(key)):
                if before.action != "undo":
                    raise SenselessError(OTHER_REQUEST)
                return self.events("id = ?", before.undoes)[0]
            last = next(iter(self.history(annotator, 1)), None)
            if last is not None:
                self._append(Event(annotator.id, last.sample, "undo", final=last.final, undoes=last.id), key)
            return last

    def record_guess_seen(self, annotator: Annotator, sample: int) -> None:
        """Remember that this person saw the model's guess: their answers about the image will say so."""
        with self.database.writing():
            self.database.connection.execute(
                "INSERT OR IGNORE INTO guesses_seen VALUES (?, ?)", (sample, annotator.id)
            )

    def history(self, annotator: Annotator, count: int) -> list[Event]:
        """List this person's answers that were not undone, latest first."""
        return self.events(
            f"annotator = ? AND {STANDS} ORDER BY id DESC LIMIT ?",
            annotator.id,
            count,
        )

    def events(self, where: str, *values: Any) -> list[Event]:
        rows = self.database.rows(f"SELECT {COLUMNS} FROM events WHERE {where}", *values)
        return [Event(*row) for row in rows]

    def _with_key(self, key: str) -> Event | None:
        return next(iter(self.events("key = ?", key)), None)

    def _append(self, event: Event, key: str | None, *, hold: bool = True) -> None:
        """Write the event, and in the same transaction what follows from it.

        An image whose answer was undone is held for the person who will answer anew.
        """
        execute, now = self.database.connection.execute, time.time()
        asking = self.rounds.find_for(event.sample)
        execute(
            "INSERT INTO events (time, annotator, sample, action, label, seconds, final, undoes,"
            " run, al_round, strategy, key, import, comment, gold, saw_guess)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " EXISTS (SELECT 1 FROM guesses_seen WHERE sample = ? AND annotator = ?))",
            (
                *(now, event.annotator, event.sample, event.action, event.label, event.seconds),
                *(event.final, event.undoes),
                *((asking.run, asking.al_round, asking.strategy) if asking else (None, None, None)),
                *(key, event.imported, event.comment, event.gold, event.sample, event.annotator),
            ),
        )
        events = self.events("sample = ? ORDER BY id", event.sample)
        mine = _standing_answers(events).get(event.annotator)
        if mine or (hold and not event.final):
            until = None if mine else now + SECONDS_HELD
            execute(
                "INSERT OR REPLACE INTO assignments VALUES (?, ?, ?, ?, ?)",
                (event.sample, event.annotator, until, *(mine or (None, None))),
            )
        else:
            execute(
                "DELETE FROM assignments WHERE sample = ? AND annotator = ?", (event.sample, event.annotator)
            )
        new = standing(events)
        execute(
            "INSERT OR REPLACE INTO standing VALUES (?, ?, ?, ?, ?)",
            (event.sample, new.answers, new.outcome, new.label, new.final),
        )


def standing(events: Iterable[Event]) -> Standing:
    """Return what follows from the events of one image, in the order in which they happened.

    Answers to gold questions decide nothing: they only say how well a person labels.
    """
    answers = _standing_answers([event for event in events if not event.gold])
    decided = answers.pop(None, None)
    outcome, label = decided or verdict(answers.values())
    return Standing(len(answers), outcome, label, decided is not None)


def _standing_answers(events: list[Event]) -> dict[int | None, tuple[Action, int | None]]:
    """Return each person's last answer that was not undone; under None the last decision of a dispute."""
    undone = {event.undoes for event in events}
    return {
        None if event.final else event.annotator: (event.action, event.label)
        for event in events
        if event.action != "undo" and event.id not in undone
    }

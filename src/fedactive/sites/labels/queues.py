"""Who gets which image next. Everybody has a queue of their own; what one person leaves, others get."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.database import Database, StoreError
from fedactive.sites.labels.gold import Gold
from fedactive.sites.labels.images import IS_GONE
from fedactive.sites.labels.rounds import ANSWERS_WANTED

Queue = Literal["round", "late", "disputed"]

# An image that a person has on the screen, or next in line, is held for them this long after their last
# request; then somebody else may get it. The page asks again while somebody is there.
SECONDS_HELD = 60.0


@dataclass(frozen=True)
class ImageRequest:
    """An image that needs an answer, and the round that asks for it."""

    sample: int
    round_id: int


class Queues:
    """`round`: what open rounds ask for. `late`: what closed ones left. `disputed`: answers that split."""

    def __init__(self, database: Database, gold: Gold) -> None:
        self.database = database
        self.gold = gold

    def next(self, annotator: Annotator, queue: Queue, count: int) -> list[ImageRequest]:
        """Return the next images for one person, and hold them for this person if that can be written."""
        if queue == "disputed":  # these are not held: they are few, and deciding one twice does no harm
            return self.find_decidable(annotator)[:count]
        try:
            with self.database.writing(durable=False):
                found, held = self._waiting(annotator, queue, count)
                if not held:
                    until = time.time() + SECONDS_HELD
                    self.database.connection.executemany(
                        "INSERT INTO assignments (sample, annotator, until) VALUES (?, ?, ?)"
                        " ON CONFLICT DO UPDATE SET until = excluded.until",
                        [(request.sample, annotator.id, until) for request in found],
                    )
        except StoreError:
            # For example, the disk is full. This often replies to an answer that was saved, so it must not
            # fail only because the next images cannot be held.
            found, _ = self._waiting(annotator, queue, count)
        if queue != "round" or not found:
            return found
        rounds = {request.sample: request.round_id for request in found}
        mixed = self.gold.mix(annotator, list(rounds))[:count]
        return [ImageRequest(sample, rounds.get(sample, found[0].round_id)) for sample in mixed]

    def include(self, annotator: Annotator, sample: int) -> bool:
        """Is this image one that the person was given, has answered about, or would be given?"""
        sql = "SELECT 1 FROM assignments WHERE sample = ? AND annotator = ?"
        if self.database.one(sql, sample, annotator.id) or self.gold.asks(annotator, sample):
            return True
        queues: tuple[Queue, ...] = ("round", "late")
        return any(self._waiting(annotator, queue, 1, sample)[0] for queue in queues)

    def _waiting(
        self, annotator: Annotator, queue: Queue, count: int, sample: int | None = None
    ) -> tuple[list[ImageRequest], bool]:
        """Return the next images for one person, and whether all are held for them for some time yet.

        With a `sample`, only this image is looked for.
        """
        sql = f"""
            SELECT q.sample, q.round, mine.until FROM rounds r JOIN requests q ON q.round = r.id
            LEFT JOIN standing s ON s.sample = q.sample
            LEFT JOIN assignments mine ON mine.sample = q.sample AND mine.annotator = :me
            WHERE r.closed IS {"NOT" if queue == "late" else ""} NULL
              {"" if sample is None else "AND q.sample = :sample"}
              AND mine.action IS NULL AND coalesce(s.final, 0) = 0
              AND coalesce(s.answers, 0) < {ANSWERS_WANTED} AND NOT {IS_GONE.format("q")}
              AND {ANSWERS_WANTED} > (
                SELECT count(*) FROM assignments o WHERE o.sample = q.sample AND o.annotator <> :me
                AND (o.action IS NOT NULL OR o.until > :now AND o.until < :now + 2 * :held))
            ORDER BY r.id DESC, q.position"""
        now = time.time()
        # A time too far ahead was written before the clock was set back: it holds nothing.
        values = {"me": annotator.id, "now": now, "held": SECONDS_HELD, "sample": sample}
        found: dict[int, ImageRequest] = {}
        held = True
        with self.database.lock, self.database.explain_errors():
            for sample, round_id, until in self.database.connection.execute(sql, values):
                if len(found) == count:
                    break
                found.setdefault(sample, ImageRequest(sample, round_id))
                held &= now + SECONDS_HELD / 2 < (until or 0) < now + 2 * SECONDS_HELD
        return list(found.values()), held

    def find_disputed(self) -> list[ImageRequest]:
        """List the images about which enough people have answered, but not the same."""
        rows = self.database.rows(
            "SELECT q.sample, max(q.round) FROM standing s JOIN requests q USING (sample)"
            f" JOIN rounds r ON r.id = q.round WHERE s.outcome = 'split' AND NOT {IS_GONE.format('q')}"
            f" GROUP BY q.sample HAVING min(s.answers) >= max({ANSWERS_WANTED}) ORDER BY 2 DESC, q.position"
        )
        return [ImageRequest(sample, round_id) for sample, round_id in rows]

    def find_decidable(self, annotator: Annotator) -> list[ImageRequest]:
        """List the disputed images that this person may decide: a reviewer, and not in their own dispute."""
        if not annotator.decides:
            return []
        mine = self.database.rows(
            "SELECT sample FROM assignments WHERE annotator = ? AND action IS NOT NULL", annotator.id
        )
        answered = {sample for (sample,) in mine}
        return [one for one in self.find_disputed() if one.sample not in answered]

    def has_answered(self, annotator: Annotator, sample: int) -> bool:
        sql = "SELECT 1 FROM assignments WHERE sample = ? AND annotator = ? AND action IS NOT NULL"
        return self.database.one(sql, sample, annotator.id) is not None

    def can_be_decided(self, sample: int) -> bool:
        """Is this image disputed, or was it, so that the decision may be changed?"""
        decided = self.database.one("SELECT 1 FROM standing WHERE sample = ? AND final", sample)
        return decided is not None or any(request.sample == sample for request in self.find_disputed())

    def count_late(self) -> int:
        """Count the images of closed rounds that still need answers, whoever gives them."""
        row = self.database.one(
            "SELECT count(DISTINCT q.sample) FROM rounds r JOIN requests q ON q.round = r.id"
            " LEFT JOIN standing s ON s.sample = q.sample WHERE r.closed IS NOT NULL"
            f" AND coalesce(s.final, 0) = 0 AND coalesce(s.answers, 0) < {ANSWERS_WANTED}"
            f" AND NOT {IS_GONE.format('q')}"
        )
        return int(row[0])

"""What one person sees of the label store: their next images, the round, and how far it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Literal

from fedactive.sites.labels.agreement import cohen_kappa
from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.images import IS_GONE
from fedactive.sites.labels.queues import Queue
from fedactive.sites.labels.rounds import Round
from fedactive.sites.labels.store import LabelStore

AHEAD = 8  # images a browser has at hand
ANSWERS_FOR_PACE = 20
# Keys for classes in order; F flags and G uncovers the model's guess.
CLASS_KEYS = "1234567890abcdehijklmnopqrstuvwxyz"

WorkState = Literal["label", "waiting", "done", "others", "closed"]
Values = dict[str, Any]


def work(
    store: LabelStore, describe: Callable[[int], Values], annotator: Annotator, queue: Queue, count: int
) -> Values:
    """Return the next images of a queue, and everything that the page shows around them.

    `describe` returns what the page has to know of an image.

    `state`: "label" there are images; "waiting" no round was ever opened; "done" the open round has all its
    answers; "others" what is left is with other people; "closed" the last round is closed.
    """
    requests = store.queues.next(annotator, queue, count)
    current = store.rounds.find_by_id(requests[0].round_id) if requests else store.rounds.current()
    counts = asdict(store.rounds.counts(current)) if current else {}
    # In a round of several people all counts move when others answer, so a person sees their own share.
    mine = asdict(store.rounds.share(current, annotator.id)) if current and current.overlap > 1 else None
    state: WorkState = "waiting"
    if requests:
        state = "label"
    elif current is not None:
        state = "closed" if current.closed else "others" if counts["pending"] else "done"
    images = [describe(request.sample) for request in requests]
    deciding = queue == "disputed"
    if deciding:
        for image in images:
            image["opinions"] = opinions(store, image["sample"])
    return {
        "queue": queue,
        "state": state,
        "images": images,
        "round": _round(current),
        "counts": counts,
        "mine": mine,
        # Only for those who decide, and those who wait: to count them with every answer takes longer.
        "to_decide": len(store.queues.find_decidable(annotator)) if deciding or not requests else None,
        "disputed": None if requests else len(store.queues.find_disputed()),
        "late": None if requests else store.queues.count_late(),
        "pace": pace(store, annotator),
    }


def classes_with_keys(classes: Sequence[str]) -> list[tuple[str, str]]:
    """Return (key, class) for each class; the key is empty where there are more classes than keys.

    A class that is named like a key, as "3", "grade 3" or "B", gets this one: any other would mislead.
    """
    named = [_key_in(name) for name in classes]
    own = [key if named.count(key) == 1 else "" for key in named]
    free = iter([key for key in CLASS_KEYS if key not in own])
    return [(key or next(free, ""), name) for key, name in zip(own, classes, strict=True)]


def _key_in(name: str) -> str:
    found = re.fullmatch(r"[^0-9]*([0-9])|([a-z])", name.lower())
    key = found[1] or found[2] if found else ""
    return key if key in CLASS_KEYS else ""


def opinions(store: LabelStore, sample: int) -> list[Values]:
    """Return what people said about an image, without names: these must not decide."""
    rows = store.database.rows(
        "SELECT action, label, count(*) AS people FROM assignments"
        " WHERE sample = ? AND action IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
        sample,
    )
    comments = store.database.rows(
        "SELECT e.comment FROM events e JOIN assignments a USING (sample, annotator)"
        " WHERE sample = ? AND a.action = 'flag' AND e.id = (SELECT max(id) FROM events m"
        "   WHERE m.sample = e.sample AND m.annotator = e.annotator AND m.action = 'flag')"
        " AND e.comment IS NOT NULL ORDER BY e.id",
        sample,
    )
    said = [comment for (comment,) in comments]
    return [dict(row) | ({"comments": said} if row["action"] == "flag" and said else {}) for row in rows]


def pace(store: LabelStore, annotator: Annotator) -> float | None:
    """Return the median seconds per answer of the last few: it ignores breaks, which a mean would not."""
    seconds = [event.seconds for event in store.answers.history(annotator, ANSWERS_FOR_PACE)]
    known = [s for s in seconds if s is not None]
    return median(known) if known else None


def people(store: LabelStore) -> list[Values]:
    """Count what everybody has answered so far, over all rounds."""
    rows = store.database.rows(
        "SELECT p.name, sum(a.action = 'label') AS labelled, sum(a.action = 'skip') AS skipped,"
        " sum(a.action = 'flag') AS flagged FROM annotators p"
        " LEFT JOIN assignments a ON a.annotator = p.id GROUP BY p.id ORDER BY p.name"
    )
    return [{"name": name, "counts": [n or 0 for n in counts]} for name, *counts in rows]


def agreements(store: LabelStore) -> list[Values]:
    """Compare every two people who labelled the same images: how many, how often equally, Cohen's kappa."""
    rows = store.database.rows(
        "SELECT p.name AS first, r.name AS second, a.label AS one, b.label AS other FROM assignments a"
        " JOIN assignments b ON b.sample = a.sample AND b.annotator > a.annotator"
        " JOIN annotators p ON p.id = a.annotator JOIN annotators r ON r.id = b.annotator"
        " WHERE a.action = 'label' AND b.action = 'label'"
    )
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for first, second, one, other in rows:
        pairs.setdefault((first, second), []).append((one, other))
    return [
        {
            "names": names,
            "images": len(both),
            "equal": sum(one == other for one, other in both) / len(both),
            "kappa": cohen_kappa([one for one, _ in both], [other for _, other in both]),
        }
        for names, both in sorted(pairs.items())
    ]


def find_flagged(store: LabelStore, limit: int) -> list[Values]:
    """List flagged images, with what people said was wrong."""
    rows = store.database.rows(
        f"SELECT sample FROM standing WHERE outcome = 'flag' AND NOT {IS_GONE.format('standing')} LIMIT ?",
        limit,
    )
    return [
        {
            "sample": sample,
            "comments": [said for one in opinions(store, sample) for said in one.get("comments", [])],
        }
        for (sample,) in rows
    ]


def _round(found: Round | None) -> Values | None:
    if found is None:
        return None
    return {
        "run": found.run,
        "number": found.al_round,
        "title": found.title,
        "last": found.al_round == found.planned,
        "overlap": found.overlap,
        "opened": found.opened.isoformat(timespec="seconds"),
        "deadline": found.deadline and found.deadline.isoformat(timespec="seconds"),
        "closed": found.closed and found.closed.isoformat(timespec="seconds"),
    }

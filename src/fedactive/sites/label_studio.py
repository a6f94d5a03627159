"""Label Studio's JSON, for sites that label there: images out as tasks, with the answers so far; answers in.

The labelling interface is a single `Choices` tag over an `Image` (docs/LABELLING.md has it). Skipped and
flagged images are cancelled annotations there.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from fedactive.errors import UserError
from fedactive.sites.agreement import Action
from fedactive.sites.annotators import Annotator
from fedactive.sites.answers import MOST_SECONDS
from fedactive.sites.names import LONGEST_NAME
from fedactive.sites.store import LabelStore

FROM_NAME, TO_NAME = "label", "image"
UPLOADED = re.compile(r"^[0-9a-f]{8}-")  # what Label Studio puts before the name of an uploaded file


@dataclass(frozen=True)
class Imported:
    """What came of an import: answers recorded, and what was left out and why."""

    recorded: int
    known_before: int
    left_out: tuple[str, ...]


def export_tasks(
    store: LabelStore, names: Sequence[str], classes: Sequence[str], prefix: str = ""
) -> list[dict[str, Any]]:
    """Every image that was asked for, with everybody's standing answers; `prefix` goes before its name."""
    answers = defaultdict(list)
    rows = store.database.rows(
        "SELECT e.id, e.sample, e.action, e.label, e.seconds, e.time, p.name FROM assignments a"
        " JOIN annotators p ON p.id = a.annotator JOIN events e ON e.id = (SELECT max(id) FROM events x"
        "   WHERE x.sample = a.sample AND x.annotator = a.annotator AND x.final = 0 AND x.action <> 'undo'"
        "   AND NOT EXISTS (SELECT 1 FROM events u WHERE u.undoes = x.id))"
        " WHERE a.action IS NOT NULL ORDER BY e.id"
    )
    for event, sample, action, label, seconds, time, name in rows:
        choice = {
            "from_name": FROM_NAME,
            "to_name": TO_NAME,
            "type": "choices",
            "value": {"choices": [classes[label]] if action == "label" else []},
        }
        answers[sample].append(
            {
                "id": event,
                "result": [choice] if action == "label" else [],
                "was_cancelled": action != "label",
                "lead_time": seconds,
                "created_at": datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds"),
                "annotator": name,
                "action": action,
            }
        )
    asked = store.database.rows("SELECT DISTINCT sample FROM requests ORDER BY sample")
    return [
        {"id": sample + 1, "data": {"image": prefix + names[sample]}, "annotations": answers[sample]}
        for (sample,) in asked
        if sample < len(names)
    ]


def import_tasks(
    store: LabelStore,
    names: Sequence[str],
    classes: Sequence[str],
    content: bytes,
    by: Annotator,
) -> Imported:
    """Record the answers of an export of Label Studio, all that can be used or, if the disk is full, none.

    Images are found by name, whatever path or address stands before it. An answer that is there already is
    not recorded again, so the same file can be imported twice, and answers that were exported can come back.
    Who imports (`by`) cannot speak for others who sign in here themselves, or did. For the rest, who label
    elsewhere and count like anybody, they vouch: a site may do all its labelling there.
    """
    try:
        tasks = json.loads(content)
    except (ValueError, RecursionError):
        raise UserError("this is no JSON file; export the project from Label Studio as JSON") from None
    if not isinstance(tasks, list):
        raise UserError("this is no export of Label Studio: a list of tasks was expected")
    samples, numbers = _Names(names), {name: k for k, name in enumerate(classes)}
    new: list[tuple[Annotator, int, Action, int | None, float | None]] = []
    left_out, known_before = [], 0
    for k, task in enumerate(tasks):
        try:
            sample = samples.find(task)
            given = [_answer(annotation, numbers) for annotation in _annotations(task)]
        except ValueError as error:
            left_out.append(f"task {k + 1}: {error}")
            continue
        for answer in given:
            person = store.annotators.named(answer.person)
            if _is_known(store, sample, person, answer):
                known_before += 1
            elif person is not None and person.role == "removed":
                left_out.append(f"task {k + 1}: {answer.person} was removed here and answers no more")
            elif person is not None and person.role != "elsewhere" and person != by:
                left_out.append(f"task {k + 1}: {answer.person} can sign in here and answers alone")
            else:
                annotator = store.annotators.known_or_new(answer.person)
                new.append((annotator, sample, answer.action, answer.label, answer.seconds))
    store.answers.bring_in(new)
    return Imported(len(new), known_before, tuple(left_out))


class _Names:
    """From what a task calls its image to the image's number."""

    def __init__(self, names: Sequence[str]) -> None:
        self.numbers = {name: k for k, name in enumerate(names)}
        self.deepest = max((name.count("/") for name in names), default=0) + 1

    def find(self, task: object) -> int:
        data = task.get("data") if isinstance(task, dict) else None
        called = data.get("image") if isinstance(data, dict) else None
        if not isinstance(called, str):
            raise ValueError("it has no data.image")
        path = unquote(called.partition("?d=")[2] or called)
        parts = path.split("/")[-self.deepest :]
        for k in range(len(parts)):
            folder, name = parts[k:-1], parts[-1]
            for candidate in (name, UPLOADED.sub("", name)):
                number = self.numbers.get("/".join([*folder, candidate]))
                if number is not None:
                    return number
        raise ValueError(f"there is no image {called[:200]!r} here")


def _annotations(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    annotations = task.get("annotations") or []
    if not isinstance(annotations, list) or not all(isinstance(one, dict) for one in annotations):
        raise ValueError("its annotations are no list of objects")
    return annotations


@dataclass(frozen=True)
class _Answer:
    person: str
    action: Action
    label: int | None
    seconds: float | None
    event: object  # the number it had if it was exported here, as far as the file can be trusted


def _answer(annotation: Mapping[str, Any], numbers: Mapping[str, int]) -> _Answer:
    """Who said what, and how long it took."""
    time = annotation.get("lead_time")
    # As on the page. JSON as Python reads it also has Infinity, and numbers larger than any float.
    seconds = float(time) if isinstance(time, int | float) and 0 <= time <= MOST_SECONDS else None
    # Label Studio numbers annotations anew, and keeps what they came with.
    event = annotation.get("import_id")
    if annotation.get("was_cancelled"):
        action: Action = "flag" if annotation.get("action") == "flag" else "skip"
        return _Answer(_person(annotation), action, None, seconds, event)
    try:
        (choice,) = [one for one in annotation["result"] if one["type"] == "choices"]
        (name,) = choice["value"]["choices"]
    except (KeyError, TypeError, ValueError):
        raise ValueError("an annotation is not a single choice") from None
    if not isinstance(name, str) or name not in numbers:
        raise ValueError(f"{name!r} is none of the classes")
    return _Answer(_person(annotation), "label", numbers[name], seconds, event)


def _is_known(store: LabelStore, sample: int, person: Annotator | None, answer: _Answer) -> bool:
    """Is it this person's answer here already, or one that was exported here and came back as it was?"""
    if person is not None:
        standing = store.database.one(
            "SELECT action, label FROM assignments WHERE sample = ? AND annotator = ?", sample, person.id
        )
        if standing is not None and tuple(standing) == (answer.action, answer.label):
            return True
    if type(answer.event) is not int or not 0 < answer.event < 2**63:
        return False
    # Label Studio forgets who gave it, and what was flagged: that was no label, and still is none.
    exported = store.answers.events("id = ? AND sample = ? AND action <> 'undo'", answer.event, sample)
    return [event.label for event in exported] == [answer.label]


def _person(annotation: Mapping[str, Any]) -> str:
    who = annotation.get("annotator") or annotation.get("completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    name = who if isinstance(who, str) else f"label-studio {who}" if isinstance(who, int) else "label-studio"
    printable = "".join(character for character in name if character.isprintable())
    return printable.strip()[:LONGEST_NAME] or "label-studio"

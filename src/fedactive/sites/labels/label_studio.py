"""Label Studio's JSON, for sites that label there: export images with the answers so far, import answers.

The labelling interface is a single `Choices` tag over an `Image` (docs/LABELLING.md has it). Skipped and
flagged images are cancelled annotations there.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from fedactive.errors import UserError
from fedactive.sites.labels.agreement import Action
from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.answers import MOST_SECONDS, Event
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.names import LONGEST_NAME

BLANKS = re.compile(r"[ \t\r\n]*")
UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)")  # what Label Studio makes of the name of an uploaded file


@dataclass(frozen=True)
class Imported:
    """The result of an import: how many answers were recorded, and what was left out and why."""

    recorded: int
    known_before: int
    left_out: tuple[str, ...]


def export_tasks(
    store: LabelStore, names: Sequence[str], classes: Sequence[str], prefix: str = ""
) -> list[dict[str, Any]]:
    """List every image that was asked for and is not gone, with everybody's answers.

    `prefix` goes before its name.
    """
    answers = defaultdict(list)
    rows = store.database.rows(
        "SELECT e.id, e.sample, e.action, e.label, e.seconds, e.time, p.name FROM events e"
        " JOIN annotators p ON p.id = e.annotator WHERE e.id IN (SELECT max(id) FROM events x"
        "   WHERE x.final = 0 AND x.action <> 'undo'"
        "   AND NOT EXISTS (SELECT 1 FROM events u WHERE u.undoes = x.id) GROUP BY x.sample, x.annotator)"
        " ORDER BY e.id"
    )
    for event, sample, action, label, seconds, time, name in rows:
        result = []
        if action == "label":
            value = {"choices": [classes[label]]}
            result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]
        answers[sample].append(
            {
                "id": event,
                "result": result,
                "was_cancelled": action != "label",
                "lead_time": seconds,
                "created_at": datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds"),
                "annotator": name,
                "action": action,
            }
        )
    asked, gone = store.database.rows("SELECT DISTINCT sample FROM requests ORDER BY 1"), store.images.gone()
    return [
        {"id": sample + 1, "data": {"image": prefix + names[sample]}, "annotations": answers[sample]}
        for (sample,) in asked
        if sample < len(names) and sample not in gone
    ]


def import_tasks(
    store: LabelStore,
    names: Sequence[str],
    classes: Sequence[str],
    content: bytes,
    by: Annotator,
) -> Imported:
    """Record the answers in an export of Label Studio: all that can be used. The whole can be undone.

    Images are found by name, whatever path or address stands before it. Of several answers of a person about
    an image the last counts. An answer that is there already is not recorded again, so the same file can be
    imported twice, and answers that were exported from here can come back.
    The person who imports (`by`) cannot answer for others who can sign in here, or could. They can for people
    who label elsewhere, whose answers count like any other: a site may do all its labelling there.
    """
    left_out: list[tuple[int, str]] = []  # task, reason
    try:
        given = _read(_tasks(content), _Names(names, store.images.gone()), classes, left_out)
    except (ValueError, RecursionError):
        raise UserError(
            "this is not a list of tasks in JSON; export the project from Label Studio as JSON"
        ) from None
    theirs = [answer for answer in given if not _came_back(store, answer)]
    # Only a person's last answer can be compared with the store, which keeps the last.
    latest = {(answer.person, answer.sample): answer for answer in theirs}
    new: list[Event] = []
    known_before = len(given) - len(theirs)
    for answer in theirs:
        person = store.annotators.find(answer.person)
        if answer is not latest[answer.person, answer.sample]:
            left_out.append((answer.task, f"{answer.person} answers about this image again further on"))
        elif person is not None and _stands(store, person, answer):
            known_before += 1
        elif person is not None and person.role == "removed":
            left_out.append((answer.task, f"{answer.person} was removed here and answers no more"))
        elif person is not None and person.role != "elsewhere" and person != by:
            left_out.append((answer.task, f"{answer.person} can sign in here and answers alone"))
        else:
            annotator = store.annotators.find_or_add(answer.person)
            new.append(Event(annotator.id, answer.sample, answer.action, answer.label, answer.seconds))
    store.imports.record(new, by)
    return Imported(len(new), known_before, tuple(f"task {k}: {why}" for k, why in sorted(left_out)))


def _tasks(content: bytes) -> Iterator[object]:
    """Read the list one task at a time: json.loads would stop all other threads for as long as it takes."""
    text = content.decode(json.detect_encoding(content)).strip()
    end = len(text) - 1
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("not a list")
    decoder = json.JSONDecoder()
    position = BLANKS.match(text, 1).end()  # type: ignore[union-attr] # it always matches
    while position < end:
        task, position = decoder.raw_decode(text, position)
        yield task
        position = BLANKS.match(text, position).end()  # type: ignore[union-attr]
        if position > end or (position < end and text[position] != ","):
            raise ValueError("not a list of tasks")
        position = BLANKS.match(text, position + 1).end()  # type: ignore[union-attr]


@dataclass(frozen=True)
class _Answer:
    task: int  # counted from 1
    sample: int
    person: str
    action: Action
    label: int | None
    seconds: float | None
    event: object  # the number it had here if it was exported from here; as the file says, so unchecked


def _read(
    tasks: Iterator[object], samples: _Names, classes: Sequence[str], left_out: list[tuple[int, str]]
) -> list[_Answer]:
    """Read who said what about which image, in the order of the file; what makes no sense is left out."""
    numbers = {name: k for k, name in enumerate(classes)}
    answers = []
    for k, task in enumerate(tasks, start=1):
        try:
            sample = samples.find(task)
            annotations = _annotations(task)
        except ValueError as error:
            left_out.append((k, str(error)))
            continue
        for annotation in annotations:  # if one cannot be used, the others still can
            try:
                answers.append(_answer(k, sample, annotation, numbers))
            except ValueError as error:
                left_out.append((k, str(error)))
    return answers


class _Names:
    """Finds the number of an image by what a task calls it."""

    def __init__(self, names: Sequence[str], gone: Collection[int]) -> None:
        self.numbers = {name: k for k, name in enumerate(names) if k not in gone}
        self.deepest = max((name.count("/") for name in names), default=0) + 1
        self.without_folder = defaultdict[str, list[int]](list)
        for name, k in self.numbers.items():
            self.without_folder[_as_stored(name.rpartition("/")[2])].append(k)

    def find(self, task: object) -> int:
        data = task.get("data") if isinstance(task, dict) else None
        called = data.get("image") if isinstance(data, dict) else None
        if not isinstance(called, str):
            raise ValueError("it has no data.image")
        if called in self.numbers:
            return self.numbers[called]
        path = called.partition("?d=")[2] or called
        spellings = path.split("/"), unquote(path).split("/")  # some names look quoted and are not
        for depth in range(self.deepest, 0, -1):
            for parts in spellings:
                number = self.numbers.get("/".join(parts[-depth:]))
                if number is not None:
                    return number
        for parts in spellings:
            if uploaded := UPLOADED.fullmatch(parts[-1]):  # what stands before it is Label Studio's own
                found = self.without_folder.get(_as_stored(uploaded[1]), [])
                if len(found) > 1:
                    raise ValueError(f"several images here are called {uploaded[1][:200]!r}")
                if found:
                    return found[0]
        raise ValueError(f"there is no image {called[:200]!r} here")


def _as_stored(name: str) -> str:
    """Return the name under which Label Studio stores an uploaded file: Django drops some characters."""
    return re.sub(r"[^-\w.]", "", name.strip().replace(" ", "_"))


def _annotations(task: Any) -> list[Mapping[str, Any]]:
    annotations = task.get("annotations") or []
    if not isinstance(annotations, list) or not all(isinstance(one, dict) for one in annotations):
        raise ValueError("its annotations are not a list of objects")
    return annotations


def _answer(task: int, sample: int, annotation: Mapping[str, Any], numbers: Mapping[str, int]) -> _Answer:
    """Read who said what, and how long it took."""
    time = annotation.get("lead_time")
    # As on the page. JSON as Python reads it also has Infinity, and numbers larger than any float.
    seconds = float(time) if isinstance(time, int | float) and 0 <= time <= MOST_SECONDS else None
    action, label = _choice(annotation, numbers)
    # Label Studio numbers annotations anew, and keeps what they came with.
    return _Answer(task, sample, _person(annotation), action, label, seconds, annotation.get("import_id"))


def _choice(annotation: Mapping[str, Any], numbers: Mapping[str, int]) -> tuple[Action, int | None]:
    if annotation.get("was_cancelled"):
        return "flag" if annotation.get("action") == "flag" else "skip", None
    try:
        (choice,) = [one for one in annotation["result"] if one["type"] == "choices"]
        (name,) = choice["value"]["choices"]
    except (KeyError, TypeError, ValueError):
        raise ValueError("an annotation is not a single choice") from None
    if not isinstance(name, str) or name not in numbers:
        raise ValueError(f"{name!r} is none of the classes")
    return "label", numbers[name]


def _came_back(store: LabelStore, answer: _Answer) -> bool:
    """Was this answer exported from here, and is it unchanged?"""
    if type(answer.event) is not int or not 0 < answer.event < 2**63:
        return False
    # Label Studio forgets who gave it, and whether it was a skip or a flag; so only labels are compared.
    exported = store.answers.events("id = ? AND sample = ? AND action <> 'undo'", answer.event, answer.sample)
    return [event.label for event in exported] == [answer.label]


def _stands(store: LabelStore, person: Annotator, answer: _Answer) -> bool:
    """Is this already the person's answer here?"""
    standing = store.database.one(
        "SELECT action, label FROM assignments WHERE sample = ? AND annotator = ?", answer.sample, person.id
    )
    return standing is not None and tuple(standing) == (answer.action, answer.label)


def _person(annotation: Mapping[str, Any]) -> str:
    who = annotation.get("annotator") or annotation.get("completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    name = who if isinstance(who, str) else f"label-studio {who}" if isinstance(who, int) else "label-studio"
    printable = "".join(character for character in name if character.isprintable())
    return printable.strip()[:LONGEST_NAME].strip() or "label-studio"

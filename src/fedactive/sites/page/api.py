"""JSON for the page's script, and for programs that label (docs/LABELLING.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field, StrictInt

from fedactive.sites.labels.agreement import Action
from fedactive.sites.labels.answers import MOST_SECONDS, Event
from fedactive.sites.labels.label_studio import import_tasks
from fedactive.sites.labels.queues import Queue
from fedactive.sites.page import view
from fedactive.sites.page.desk import (
    AtDesk,
    Desk,
    FromThisPage,
    OnlyLeads,
    Sample,
    SignedIn,
    require_reviewer,
)
from fedactive.sites.page.session import Session

MOST_AHEAD = 100
MOST_COMMENT = 500  # characters
Number = Annotated[StrictInt, Field(ge=0, lt=2**63)]  # what SQLite can count to

router = APIRouter(prefix="/api")


class Change(BaseModel):
    queue: Queue = "round"
    # Chosen by the sender: a request that is sent again because its reply was lost counts once.
    key: str | None = Field(None, max_length=64)

    def key_of(self, session: Session) -> str | None:
        return None if self.key is None else f"{session.annotator.id} {self.key}"


class Answer(Change):
    sample: Number
    action: Action = "label"
    label: StrictInt | None = None  # true, "3" and 3.0 are mistakes of a program, not classes
    seconds: float | None = Field(None, ge=0, le=MOST_SECONDS)
    comment: str | None = Field(None, max_length=MOST_COMMENT)  # why the image is flagged


class Token(BaseModel):
    token: str = Field(max_length=200)


@router.post("/sign-in")
def sign_in(request: Request, response: Response, desk: AtDesk, given: Token) -> view.Values:
    session = desk.sessions.sign_in(request, given.token)
    desk.sessions.set_cookie(request, response, session)
    return {"annotator": session.annotator.name, "csrf": session.csrf, "classes": list(desk.classes)}


@router.get("/next")
def next_images(
    desk: AtDesk,
    session: SignedIn,
    queue: Queue = "round",
    count: Annotated[int, Query(ge=1, le=MOST_AHEAD)] = view.AHEAD,
) -> view.Values:
    if queue == "disputed":
        require_reviewer(session)
    return _work(desk, session, queue, count)


@router.post("/answer")
def answer(desk: AtDesk, session: FromThisPage, given: Answer) -> view.Values:
    if (given.action == "label") != (given.label is not None):
        raise HTTPException(422, "A label needs its class, and only a label has one.")
    if given.comment is not None and given.action != "flag":
        raise HTTPException(422, "Only a flag has a comment.")
    if given.label is not None and not 0 <= given.label < len(desk.classes):
        raise HTTPException(422, f"There is no class {given.label}: there are {len(desk.classes)}.")
    desk.store.answers.record(
        session.annotator,
        given.sample,
        given.action,
        given.label,
        seconds=given.seconds,
        final=given.queue == "disputed",
        comment=given.comment,
        key=given.key_of(session),
    )
    return _work(desk, session, given.queue)


@router.post("/undo")
def undo(desk: AtDesk, session: FromThisPage, given: Change) -> view.Values:
    undone = desk.store.answers.undo(session.annotator, given.key_of(session))
    work = _work(desk, session, given.queue)
    if undone is None:
        return work | {"undone": None}
    asking = desk.store.rounds.find_for(undone.sample)
    late = asking is None or asking.closed is not None
    queue: Queue = "disputed" if undone.final else "late" if late else "round"
    return work | {"undone": _past(desk, undone) | {"queue": queue}}


@router.get("/history")
def history(
    desk: AtDesk, session: SignedIn, count: Annotated[int, Query(ge=1, le=1000)] = 200
) -> list[view.Values]:
    """List the person's own answers, latest first."""
    gold = desk.store.gold.labels() if session.annotator.decides else {}
    return [
        _past(desk, event) | ({"gold": event.sample in gold} if session.annotator.decides else {})
        for event in desk.store.answers.history(session.annotator, count)
    ]


class GoldQuestion(BaseModel):
    sample: Number
    gold: bool


@router.post("/gold")
def set_gold(request: Request, desk: AtDesk, session: FromThisPage, given: GoldQuestion) -> view.Values:
    """Make an image whose label is certain a question for everybody else, or end that."""
    require_reviewer(session, "chooses gold questions")
    desk.require_asked_for(given.sample)
    if given.gold:
        desk.store.gold.add(session.annotator, given.sample)
    else:
        desk.store.gold.remove(given.sample)
    desk.log(request, session, "set gold question" if given.gold else "removed gold question", given.sample)
    return {"gold": given.gold}


@router.get("/guess/{sample}")
def guess(request: Request, desk: AtDesk, session: SignedIn, sample: Sample) -> view.Values:
    """Return the model's guess. It is shown only on request, so that people do not just follow it."""
    desk.require_asked_for(sample)
    guessed = desk.guess(sample) if desk.guess else None
    if guessed is None:
        return {"label": None, "probability": None}
    # Recorded before it is shown: any answer that follows then says that the guess was seen.
    desk.store.answers.record_guess_seen(session.annotator, sample)
    desk.log(request, session, "saw guess", sample)
    return {"label": guessed[0], "probability": guessed[1]}


async def _body(request: Request) -> bytes:
    return await request.body()


@router.post("/label-studio", dependencies=[OnlyLeads])
def import_answers(
    request: Request, desk: AtDesk, session: FromThisPage, content: Annotated[bytes, Depends(_body)]
) -> view.Values:
    desk.log(request, session, "imported answers")
    with one_at_a_time(desk.importing):
        imported = import_tasks(desk.store, desk.images.names, desk.classes, content, session.annotator)
    return asdict(imported)


class Undo(BaseModel):
    number: Number


@router.post("/label-studio/undo", dependencies=[OnlyLeads])
def undo_import(request: Request, desk: AtDesk, session: FromThisPage, given: Undo) -> view.Values:
    desk.log(request, session, "undid import")
    with one_at_a_time(desk.importing):
        return {"undone": desk.store.imports.undo(given.number)}


@contextmanager
def one_at_a_time(lock: Lock) -> Iterator[None]:
    if not lock.acquire(blocking=False):
        raise HTTPException(409, "Another import is going on. Try again when it has ended.")
    try:
        yield
    finally:
        lock.release()


def _work(desk: Desk, session: Session, queue: Queue, count: int = view.AHEAD) -> view.Values:
    return view.work(desk.store, desk.describe, session.annotator, queue, count)


def _past(desk: Desk, event: Event) -> dict[str, Any]:
    past = desk.describe(event.sample) | {
        "action": event.action,
        "label": event.label,
        "final": bool(event.final),
    }
    if event.comment is not None:
        past["comment"] = event.comment
    # To decide a dispute again, a person sees what was said.
    return past | ({"opinions": view.opinions(desk.store, event.sample)} if event.final else {})

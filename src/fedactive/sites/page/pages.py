"""The pages people see, and the images on them."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from fedactive.errors import DataError
from fedactive.sites.labels.access_log import as_csv
from fedactive.sites.labels.label_studio import export_tasks
from fedactive.sites.labels.queues import Queue
from fedactive.sites.page import view
from fedactive.sites.page.api import MOST_COMMENT
from fedactive.sites.page.desk import AtDesk, Desk, OnlyLeads, Sample, SignedIn, require_reviewer
from fedactive.sites.page.guide import by_group
from fedactive.sites.page.session import Session

log = logging.getLogger(__name__)

FLAGGED_SHOWN = 60
IMPORTS_SHOWN = 10
SEARCHED_FROM = 10  # with more classes there is a field to find one by typing

router = APIRouter()


async def _form(request: Request) -> dict[str, str]:
    fields = parse_qs((await request.body()).decode(errors="replace"))
    return {name: values[-1] for name, values in fields.items()}


Form = Annotated[dict[str, str], Depends(_form)]


def _labelling(desk: Desk, session: Session, queue: Queue) -> HTMLResponse:
    """Show a queue's next image; if there is none, say why and what comes next."""
    work = view.work(desk.store, desk.describe, session.annotator, queue, view.AHEAD)
    classes = view.classes_with_keys(desk.classes)
    return desk.page(
        "label" if work["state"] == "label" else "wait",
        session,
        work=work,
        classes=classes,
        keys={key for key, _ in classes},
        groups=by_group(classes, desk.guide),
        guide=list(zip(desk.classes, desk.guide, strict=True)) if desk.guide else [],
        searched_from=SEARCHED_FROM,
        most_comment=MOST_COMMENT,
        can_guess=desk.guess is not None,
    )


@router.get("/")
def current(desk: AtDesk, session: SignedIn) -> HTMLResponse:
    return _labelling(desk, session, "round")


@router.get("/late")
def late(desk: AtDesk, session: SignedIn) -> HTMLResponse:
    return _labelling(desk, session, "late")


@router.get("/disagreements")
def disagreements(desk: AtDesk, session: SignedIn) -> HTMLResponse:
    require_reviewer(session)
    return _labelling(desk, session, "disputed")


@router.get("/overview")
def overview(desk: AtDesk, session: SignedIn) -> HTMLResponse:
    store = desk.store
    current = store.rounds.current()
    return desk.page(
        "overview",
        session,
        round=current,
        counts=store.rounds.counts(current) if current else None,
        people=view.people(store),
        agreements=view.agreements(store),
        late=store.queues.count_late(),
        disputed=len(store.queues.find_disputed()),
        to_decide=len(store.queues.find_decidable(session.annotator)),
        somebody_decides=any(person.decides for person in store.annotators.all()),
        imports=store.imports.latest(IMPORTS_SHOWN),
        flagged=view.find_flagged(store, FLAGGED_SHOWN),
        checked=store.gold.accuracies().get(session.annotator.name),
        images=len(desk.images),
        left_out=desk.images.left_out(),
        is_lead=session.annotator.role == "lead",
    )


@router.get("/images/{sample}")
def image(request: Request, desk: AtDesk, session: SignedIn, sample: Sample) -> Response:
    desk.require_asked_for(sample)
    with telling_what_cannot_be_shown(sample):
        content, kind = desk.images.picture(sample, desk.window(sample))
    desk.log(request, session, "saw image", sample)
    return Response(content, media_type=kind)


@router.get("/images/{sample}/values")
def values(request: Request, desk: AtDesk, session: SignedIn, sample: Sample) -> Response:
    """Send a deep picture as it is: the page shows it in any window without asking again.

    The header says what the numbers mean; the body has 16 bits for each, little end first, row by row.
    """
    desk.require_asked_for(sample)
    with telling_what_cannot_be_shown(sample):
        deep = desk.images.values(sample)
    desk.log(request, session, "saw image", sample)
    height, width = deep.counts.shape
    about = {
        **{"width": width, "height": height, "low": deep.low, "step": deep.step},
        **{"most": int(deep.counts.max()), "window": deep.window},
        **{"inverted": deep.inverted, "hounsfield": deep.hounsfield},
    }
    content = gzip.compress(deep.counts.astype("<u2").tobytes(), compresslevel=1, mtime=0)
    headers = {"X-Picture": json.dumps(about), "Content-Encoding": "gzip"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@contextmanager
def telling_what_cannot_be_shown(sample: int) -> Iterator[None]:
    try:
        yield
    except DataError as error:  # names the file, which people who label are not to know
        log.warning("image %d cannot be shown: %s", sample, error)
        raise HTTPException(404, f"Image {sample} cannot be shown. The site's log says why.") from None


@router.get("/guide/{label}/{position}")
def example(desk: AtDesk, session: SignedIn, label: Sample, position: Sample) -> Response:
    """Send an example picture of a class."""
    examples = desk.guide[label].examples if label < len(desk.guide) else ()
    if position >= len(examples):
        raise HTTPException(404, "There is no such example.")
    content, kind = examples[position]
    return Response(content, media_type=kind)


@router.get("/label-studio.json", dependencies=[OnlyLeads])
def export(
    request: Request,
    desk: AtDesk,
    session: SignedIn,
    prefix: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    desk.log(request, session, "exported answers")
    tasks = export_tasks(desk.store, desk.images.names, desk.classes, prefix)
    headers = {"Content-Disposition": 'attachment; filename="label-studio.json"'}
    # JSON in ASCII can also have names of files that are no text.
    return Response(json.dumps(tasks), media_type="application/json", headers=headers)


@router.get("/access-log.csv", dependencies=[OnlyLeads])
def access_log(request: Request, desk: AtDesk, session: SignedIn) -> Response:
    desk.log(request, session, "exported log")
    text = as_csv(desk.store.access_log.read(desk.images.names, desk.classes))
    headers = {"Content-Disposition": 'attachment; filename="access-log.csv"'}
    return Response(text.encode(errors="backslashreplace"), media_type="text/csv", headers=headers)


@router.get("/sign-in")
def sign_in_page(request: Request, desk: AtDesk) -> Response:
    if desk.sessions.find(request):
        return RedirectResponse("/", 303)
    return desk.page("sign_in", message="")


@router.post("/sign-in")
def sign_in(request: Request, desk: AtDesk, fields: Form) -> Response:
    try:
        session = desk.sessions.sign_in(request, fields.get("token", ""))
    except HTTPException as error:
        refused = desk.page("sign_in", status=error.status_code, message=error.detail)
        refused.headers.update(error.headers or {})
        return refused
    response = RedirectResponse("/", 303)
    desk.sessions.set_cookie(request, response, session)
    return response


@router.post("/sign-out")
def sign_out(request: Request, desk: AtDesk, session: SignedIn, fields: Form) -> Response:
    desk.sessions.check_csrf(session, fields.get("csrf"))
    desk.sessions.sign_out(request, session)
    response = RedirectResponse("/sign-in", 303)
    desk.sessions.set_cookie(request, response, None)
    return response

"""The pages people see, and the images on them."""

from __future__ import annotations

import json
import logging
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from fedactive.errors import DataError
from fedactive.sites.labels.access_log import as_csv
from fedactive.sites.labels.label_studio import export_tasks
from fedactive.sites.labels.queues import Queue
from fedactive.sites.page import view
from fedactive.sites.page.desk import AtDesk, Desk, OnlyLeads, Sample, SignedIn, require_reviewer
from fedactive.sites.page.session import Session

log = logging.getLogger(__name__)

FLAGGED_SHOWN = 60
IMPORTS_SHOWN = 10

router = APIRouter()


async def _form(request: Request) -> dict[str, str]:
    fields = parse_qs((await request.body()).decode(errors="replace"))
    return {name: values[-1] for name, values in fields.items()}


Form = Annotated[dict[str, str], Depends(_form)]


def _labelling(desk: Desk, session: Session, queue: Queue) -> HTMLResponse:
    """Show a queue's next image; if there is none, say why and what comes next."""
    work = view.work(desk.store, session.annotator, queue, view.AHEAD)
    return desk.page(
        "label" if work["state"] == "label" else "wait",
        session,
        work=work,
        classes=view.classes_with_keys(desk.classes),
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
        images=len(desk.images),
        left_out=desk.images.left_out(),
        is_lead=session.annotator.role == "lead",
    )


@router.get("/images/{sample}")
def image(request: Request, desk: AtDesk, session: SignedIn, sample: Sample) -> Response:
    desk.require_asked_for(sample)
    try:
        content, kind = desk.images.picture(sample)
    except DataError as error:  # names the file, which people who label are not to know
        log.warning("image %d cannot be shown: %s", sample, error)
        raise HTTPException(404, f"Image {sample} cannot be shown. The site's log says why.") from None
    desk.log(request, session, "saw image", sample)
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

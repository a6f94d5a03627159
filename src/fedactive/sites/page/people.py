"""The page of a lead: who may sign in, what they may do, and how they answer gold questions."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from fedactive.sites.labels.annotators import Annotator, Part
from fedactive.sites.labels.database import SenselessError
from fedactive.sites.page import view
from fedactive.sites.page.desk import AtDesk, Desk, FromThisPage, OnlyLeads, SignedIn
from fedactive.sites.page.session import Session

router = APIRouter(dependencies=[OnlyLeads])


class Person(BaseModel):
    name: str = Field(max_length=200)


class PersonWithPart(Person):
    part: Part = "annotator"


@router.get("/people")
def people(desk: AtDesk, session: SignedIn) -> HTMLResponse:
    accuracies = desk.store.gold.accuracies()
    counts = {person["name"]: person["counts"] for person in view.people(desk.store)}
    return desk.page(
        "people",
        session,
        people=[
            {"person": person, "counts": counts[person.name], "checked": accuracies.get(person.name)}
            for person in desk.store.annotators.all()
            if person.part or any(counts[person.name])
        ],
        gold=[(sample, desk.classes[label]) for sample, label in desk.store.gold.labels().items()],
    )


@router.post("/api/people")
def add(request: Request, desk: AtDesk, session: FromThisPage, given: PersonWithPart) -> view.Values:
    """Add a person; the token is told only now."""
    annotators = desk.store.annotators
    known = annotators.find(given.name.strip())
    if known is not None and known.part:
        raise SenselessError(f"{known.name} can sign in already.")
    token = annotators.add(given.name, lead=given.part == "lead", reviewer=given.part == "reviewer")
    found = annotators.find_by_token(token)
    desk.log(request, session, "added person", about=found)
    return {"name": found.name if found else given.name, "token": token}


@router.post("/api/people/renew")
def renew(request: Request, desk: AtDesk, session: FromThisPage, given: Person) -> view.Values:
    """Give somebody who lost their token a new one, which is told only now."""
    person = _find(desk, session, given)
    desk.log(request, session, "renewed token", about=person)
    return {"name": person.name, "token": desk.store.annotators.renew(person.name)}


@router.post("/api/people/role")
def change_role(request: Request, desk: AtDesk, session: FromThisPage, given: PersonWithPart) -> view.Values:
    person = _find(desk, session, given)
    desk.log(request, session, "changed role", about=person)
    desk.store.annotators.set_part(person.name, given.part)
    return {"name": person.name, "part": given.part}


@router.post("/api/people/remove")
def remove(request: Request, desk: AtDesk, session: FromThisPage, given: Person) -> view.Values:
    """Let nobody sign in under this name; what the person answered stays."""
    person = _find(desk, session, given)
    desk.log(request, session, "removed person", about=person)
    desk.store.annotators.remove(person.name)
    return {"name": person.name}


def _find(desk: Desk, session: Session, given: Person) -> Annotator:
    """Return the person who is meant. A lead cannot end their own part: a site without one would be stuck."""
    person = desk.store.annotators.find(given.name)
    if person is None or person.part is None:
        raise SenselessError("Nobody with this name can sign in here.")
    if person.id == session.annotator.id:
        raise SenselessError("You cannot change yourself. Ask another lead, or whoever runs the site.")
    return person

"""What every route needs: the store, the images, the classes, who is signed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Any, Protocol

import numpy as np
from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from numpy.typing import NDArray
from pydantic import Field

from fedactive.sites.labels.access_log import Deed
from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.answers import NotAskedError
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.page.guide import Guide
from fedactive.sites.page.session import Session, Sessions, address_of

Sample = Annotated[int, Field(ge=0, lt=2**63)]  # what SQLite can count to
Guess = Callable[[int], tuple[int, float] | None]  # the model's class of an image, and its probability


Window = tuple[float, float]  # level and width


class Values(Protocol):
    """A picture of more than 8 bits: its value at a place is low + step * count there."""

    @property
    def counts(self) -> NDArray[np.uint16]: ...

    @property
    def low(self) -> float: ...

    @property
    def step(self) -> float: ...

    @property
    def window(self) -> Window: ...

    @property
    def inverted(self) -> bool: ...

    @property
    def hounsfield(self) -> bool: ...


class Gallery(Protocol):
    """The images of a site as the page shows them; their numbers are positions in `names`.

    `names` also has images that are gone, the length only those that are there.
    """

    @property
    def names(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def picture(self, sample: int, window: Window | None = None) -> tuple[bytes, str]:
        """Return what a browser can show of an image, and its media type; a deep one in this window."""

    def is_deep(self, sample: int) -> bool:
        """Has this image more than 8 bits?"""

    def values(self, sample: int) -> Values:
        """Return a deep image."""

    def left_out(self) -> list[str]:
        """Return a sentence for each file that cannot be used, and for each image that is gone."""


@dataclass(frozen=True)
class Desk:
    store: LabelStore
    images: Gallery
    classes: Sequence[str]
    sessions: Sessions
    templates: Environment
    guess: Guess | None
    guide: Guide = ()
    importing: Lock = field(default_factory=Lock)  # held while answers are imported

    def page(
        self, name: str, session: Session | None = None, status: int = 200, **values: Any
    ) -> HTMLResponse:
        html = self.templates.get_template(f"{name}.html.jinja").render(session=session, **values)
        return HTMLResponse(html, status)

    def log(
        self,
        request: Request,
        session: Session,
        deed: Deed,
        sample: int | None = None,
        about: Annotator | None = None,
    ) -> None:
        self.store.access_log.record(deed, session.annotator, address_of(request), sample, about)

    def describe(self, sample: int) -> dict[str, Any]:
        """Return where the picture of an image is; of a deep one also its values, and the run's window."""
        found: dict[str, Any] = {"sample": sample, "image": f"/images/{sample}"}
        if self.images.is_deep(sample):
            found |= {"values": f"/images/{sample}/values", "window": self.window(sample)}
        return found

    def window(self, sample: int) -> Window | None:
        asking = self.store.rounds.find_for(sample)
        return asking.window if asking else None

    def require_asked_for(self, sample: int) -> None:
        """Refuse an image that no round wants labelled: people see no others."""
        if self.store.rounds.find_for(sample) is None:
            raise NotAskedError(f"nobody asked for image {sample}")


async def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]


def _signed_in(request: Request, desk: AtDesk) -> Session:
    session = desk.sessions.find(request)
    if session is None:
        raise HTTPException(401, "Sign in first.")
    desk.sessions.count_request(session)
    return session


SignedIn = Annotated[Session, Depends(_signed_in)]


async def _from_this_page(request: Request, desk: AtDesk, session: SignedIn) -> Session:
    desk.sessions.check_csrf(session, request.headers.get("x-csrf-token"))
    return session


def require_lead(session: SignedIn) -> None:
    if session.annotator.role != "lead":
        raise HTTPException(403, "Only a lead of this site may do this. Ask whoever runs the site.")


def require_reviewer(session: Session, what: str = "decides disagreements") -> None:
    if not session.annotator.decides:
        raise HTTPException(403, f"Only a reviewer of this site {what}.")


# For routes that show file names or everybody's answers, or import answers of others.
OnlyLeads = Depends(require_lead)

# For routes that change something.
FromThisPage = Annotated[Session, Depends(_from_this_page)]

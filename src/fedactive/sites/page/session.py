"""Who is asking: personal tokens, session cookies, protection against forged requests and guessing.

The cookie holds the key of a session that the store knows, and which ends when the person signs out, after
half a day, and when the token is renewed or the person removed. It is HttpOnly and SameSite=Strict; besides,
every request that changes something must carry a token derived from it, which a foreign page cannot read.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from fastapi import HTTPException, Request, Response

from fedactive.sites.labels.annotators import SECONDS_SIGNED_IN, Annotator
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.page.allowance import Allowance


@dataclass(frozen=True)
class Session:
    annotator: Annotator
    key: str
    csrf: str  # to be sent back with every request that changes something


class Sessions:
    def __init__(self, secret: bytes, store: LabelStore) -> None:
        self.secret = secret
        self.annotators = store.annotators
        self.access_log = store.access_log
        # Cookies do not know ports: several sites on one machine must not overwrite each other's.
        self.cookie = f"fedactive-{self._sign('name')[:8]}"
        self.wrong_tokens = Allowance(at_once=5, per_minute=5)  # of an address
        self.requests = Allowance(at_once=3000, per_minute=6000)  # of a person

    def sign_in(self, request: Request, token: str) -> Session:
        """Begin a session of whoever has this token.

        The right token is always taken, however many wrong ones came from the same address: others behind it
        must not be able to lock a person out, and nobody guesses 192 bits.
        """
        address = address_of(request)
        annotator = self.annotators.find_by_token(token)
        if annotator is None:
            if wait := self.wrong_tokens.take(address):
                raise too_many("wrong tokens", wait)
            self.access_log.record("failed to sign in", None, address)
            raise HTTPException(403, "This token is not known. Ask whoever runs the site for a new one.")
        self.access_log.record("signed in", annotator, address)
        return self._session(self.annotators.begin_session(annotator), annotator)

    def sign_out(self, request: Request, session: Session) -> None:
        self.annotators.end_session(session.key)
        self.access_log.record("signed out", session.annotator, address_of(request))

    def set_cookie(self, request: Request, response: Response, session: Session | None) -> None:
        response.set_cookie(
            self.cookie,
            session.key if session else "",
            max_age=SECONDS_SIGNED_IN if session else 0,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def find(self, request: Request) -> Session | None:
        key = request.cookies.get(self.cookie, "")
        annotator = self.annotators.find_by_session(key) if key else None
        return self._session(key, annotator) if annotator else None

    def count_request(self, session: Session) -> None:
        if wait := self.requests.take(session.annotator.name):
            raise too_many("requests", wait)

    def check_csrf(self, session: Session, given: str | None) -> None:
        if not hmac.compare_digest(session.csrf.encode(), (given or "").encode()):
            raise HTTPException(403, "The request did not come from this page. Reload it and try again.")

    def _session(self, key: str, annotator: Annotator) -> Session:
        return Session(annotator, key, self._sign(f"csrf {key}"))

    def _sign(self, text: str) -> str:
        return hmac.new(self.secret, text.encode(), hashlib.sha256).hexdigest()


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def too_many(what: str, wait: int) -> HTTPException:
    return HTTPException(
        429, f"Too many {what}. Try again in {wait} seconds.", headers={"Retry-After": str(wait)}
    )


async def same_origin(request: Request) -> None:
    """Browsers say where a request comes from; programs say nothing. Another origin changes nothing here."""
    if request.method in ("GET", "HEAD"):
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{request.headers.get('host')}":
        raise HTTPException(403, "The request came from another page.")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "The request came from another page.")

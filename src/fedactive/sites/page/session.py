"""Who is asking: personal tokens, signed session cookies, protection against forged requests and guessing.

The cookie names the annotator and is signed with the site's secret and the hash of their token, so that it
ends when the token is renewed or the person removed. It is HttpOnly and SameSite=Strict; besides, every
request that changes something must carry a token derived from it, which a foreign page cannot read.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass

from fastapi import HTTPException, Request, Response

from fedactive.sites.labels.annotators import Annotator, Annotators

SECONDS_SIGNED_IN = 12 * 3600  # a working day
SECONDS_OF_CLOCK_DRIFT = 300
FAILURES, PER_SECONDS = 5, 60.0  # of one address


@dataclass(frozen=True)
class Session:
    annotator: Annotator
    csrf: str  # to be sent back with every request that changes something


class Sessions:
    def __init__(self, secret: bytes, annotators: Annotators) -> None:
        self.secret = secret
        self.annotators = annotators
        # Cookies do not know ports: several sites on one machine must not overwrite each other's.
        self.cookie = f"fedactive-{self._sign('name')[:8]}"
        self.failures = Failures()

    def sign_in(self, request: Request, token: str) -> tuple[Session, str]:
        """The session of whoever has this token, and the cookie's value."""
        address = request.client.host if request.client else ""
        if wait := self.failures.wait(address):
            raise HTTPException(
                429,
                f"Too many wrong tokens. Try again in {wait} seconds.",
                headers={"Retry-After": str(wait)},
            )
        annotator = self.annotators.find_by_token(token)
        if annotator is None:
            self.failures.add(address)
            raise HTTPException(403, "This token is not known. Ask whoever runs the site for a new one.")
        facts = f"{annotator.id}.{int(time.time())}.{secrets.token_urlsafe(8)}"
        return self._session(facts, annotator), f"{facts}.{self._signature(facts, annotator)}"

    def set_cookie(self, request: Request, response: Response, value: str) -> None:
        response.set_cookie(
            self.cookie,
            value,
            max_age=SECONDS_SIGNED_IN if value else 0,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def find(self, request: Request) -> Session | None:
        facts, _, signature = request.cookies.get(self.cookie, "").rpartition(".")
        try:
            annotator_id, issued, _ = facts.split(".")
            age = time.time() - int(issued)
            annotator = self.annotators.find_by_id(int(annotator_id))
        except (ValueError, OverflowError):
            return None
        if annotator is None or annotator.token_hash is None:
            return None
        if not hmac.compare_digest(self._signature(facts, annotator).encode(), signature.encode()):
            return None
        if not -SECONDS_OF_CLOCK_DRIFT < age < SECONDS_SIGNED_IN:
            return None
        return self._session(facts, annotator)

    def check_csrf(self, session: Session, given: str | None) -> None:
        if not hmac.compare_digest(session.csrf.encode(), (given or "").encode()):
            raise HTTPException(403, "The request did not come from this page. Reload it and try again.")

    def _session(self, facts: str, annotator: Annotator) -> Session:
        return Session(annotator, self._sign(f"csrf {facts} {annotator.token_hash}"))

    def _signature(self, facts: str, annotator: Annotator) -> str:
        return self._sign(f"session {facts} {annotator.token_hash}")

    def _sign(self, text: str) -> str:
        return hmac.new(self.secret, text.encode(), hashlib.sha256).hexdigest()


class Failures:
    """Wrong tokens of the last minute by address. Being asked to wait is no failure."""

    def __init__(self) -> None:
        self.times: dict[str, deque[float]] = {}
        self.lock = threading.Lock()

    def add(self, address: str) -> None:
        with self.lock:
            self._forget()
            self.times.setdefault(address, deque(maxlen=FAILURES)).append(time.monotonic())

    def wait(self, address: str) -> int:
        """Seconds until this address may try again, 0 for now."""
        with self.lock:
            self._forget()
            times = self.times.get(address, deque())
            return int(times[0] + PER_SECONDS - time.monotonic()) + 1 if len(times) == FAILURES else 0

    def _forget(self) -> None:
        old = time.monotonic() - PER_SECONDS
        for address in list(self.times):
            times = self.times[address]
            while times and times[0] < old:
                times.popleft()
            if not times:
                del self.times[address]


async def same_origin(request: Request) -> None:
    """Browsers say where a request comes from; programs say nothing. Another origin changes nothing here."""
    if request.method in ("GET", "HEAD"):
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{request.headers.get('host')}":
        raise HTTPException(403, "The request came from another page.")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "The request came from another page.")

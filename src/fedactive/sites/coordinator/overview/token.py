"""The one token that opens the coordinator's page, and the cookie of whoever has shown it.

Only the token's hash is kept. A cookie says until when it is good, and is signed with that hash: a new token
ends all sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from pathlib import Path

from fedactive.sites.keys import write_secret

SECONDS_SIGNED_IN = 12 * 3600
FILE = "page.token"


def make_token(folder: Path) -> str:
    """Make a new token, and forget the one before."""
    token = secrets.token_urlsafe(24)
    (folder / FILE).unlink(missing_ok=True)
    write_secret(folder / FILE, hash_of(token).encode())
    return token


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Door:
    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE

    def opens(self, token: str) -> bool:
        key = self.key
        return bool(key) and hmac.compare_digest(hash_of(token), key)

    def make_cookie(self) -> str:
        until = str(int(time.time()) + SECONDS_SIGNED_IN)
        return f"{until}.{self.sign(until)}"

    def is_signed_in(self, cookie: str) -> bool:
        until, _, signature = cookie.partition(".")
        right = bool(self.key) and hmac.compare_digest(self.sign(until).encode(), signature.encode())
        return right and until.isdecimal() and int(until) > time.time()

    def sign(self, text: str) -> str:
        return hmac.new(self.key.encode(), text.encode(), hashlib.sha256).hexdigest()

    @property
    def key(self) -> str:
        """The hash of the token; empty while there is none."""
        return self.file.read_text() if self.file.exists() else ""

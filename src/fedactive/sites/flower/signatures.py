"""Tell the calls of admitted sites from all others by their headers alone, before a body is read.

A SuperNode signs the time of each call. What Flower checks when it has the whole call in memory is checked
here at once; besides, a signature is good for one call only.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now


class UnknownSiteError(Exception):
    """This call is not signed by a site that is admitted, or was made before."""


class WrongClockError(Exception):
    """The time of this call is too far from ours."""


class Signatures:
    def __init__(self, keys: Callable[[], Iterable[str]]) -> None:
        """`keys` gives the public keys (PEM) of the sites that are admitted now."""
        self.keys = keys
        self.begun = now()
        self.used: set[tuple[str, int]] = set()
        self.used_at: deque[tuple[datetime, tuple[str, int]]] = deque()

    def find_site(self, headers: Mapping[str, str]) -> str:
        """Return the public key of the site that makes this call; UnknownSiteError, WrongClockError."""
        admitted = {b64encode(key.encode()).decode(): key for key in self.keys()}
        key = admitted.get(headers.get(FLEET_HTTP_PUBLIC_KEY_HEADER, ""))
        if key is None:
            raise UnknownSiteError("this key is not admitted, or was dismissed")
        try:
            time = headers[TIMESTAMP_HEADER]
            signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
            public_key = cast(ec.EllipticCurvePublicKey, load_pem_public_key(key.encode()))
            public_key.verify(signature, time.encode("ascii"), ec.ECDSA(hashes.SHA256()))
            r, _ = decode_dss_signature(signature)  # the same in (r, -s), which anybody can make of (r, s)
            signed = datetime.fromisoformat(time)
            age = (now() - signed).total_seconds()
            before = (self.begun - signed).total_seconds()  # of what was used before, nothing is known
        except (KeyError, ValueError, TypeError, InvalidSignature):
            raise UnknownSiteError("this call is not signed with the key that it shows") from None
        if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE or before > SYSTEM_TIME_TOLERANCE:
            raise WrongClockError("the clocks of this site and of the coordinator do not agree")
        if (key, r) in self.used:
            raise UnknownSiteError("this signature was used before")
        self.remember((key, r))
        return key

    def remember(self, signature: tuple[str, int]) -> None:
        """Note that it was used, and forget those that are too old to be taken anyway."""
        self.used.add(signature)
        self.used_at.append((now(), signature))
        while (now() - self.used_at[0][0]).total_seconds() > TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
            self.used.discard(self.used_at.popleft()[1])

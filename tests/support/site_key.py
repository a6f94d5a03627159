"""A site's key, and the headers with which its SuperNode signs a call."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.supercore.date import now


class SiteKey:
    def __init__(self) -> None:
        self.private = ec.generate_private_key(ec.SECP384R1())
        public = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.public = public.decode()

    def sign(self, seconds_ago: float = 0.0, as_if: SiteKey | None = None) -> dict[str, str]:
        """Headers of a call; `as_if` shows the public key of another site."""
        time = (now() - timedelta(seconds=seconds_ago)).isoformat()
        signature = self.private.sign(time.encode(), ec.ECDSA(hashes.SHA256()))
        return {
            "flwr-public-key": b64encode((as_if or self).public.encode()).decode(),
            "flwr-timestamp": time,
            "flwr-signature": b64encode(signature).decode(),
        }

"""A site's key pair. The coordinator trusts a site because it admitted the site's public key by hand."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)

from fedactive.errors import UserError
from fedactive.files import write_atomically


def make_site_key(private: Path, public: Path, name: str) -> None:
    """Make an elliptic-curve key pair (P-384) in OpenSSH's format; the public one bears the site's name."""
    key = ec.generate_private_key(ec.SECP384R1())
    write_secret(private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    write_atomically(
        public, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + f" {name}\n".encode()
    )


def read_public_key(path: Path) -> tuple[bytes, str]:
    """Return the public key of a site as Flower registers it (PEM), and the site's name."""
    try:
        content = path.read_bytes()
        key = load_ssh_public_key(content)
        name = b" ".join(content.split()[2:]).decode()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UserError(
            f"{path} is not a public key; the site's `site init` writes one as site.pub"
        ) from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise UserError(f"{path} is not the key of a site: those are elliptic-curve keys (P-384)")
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), name


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; replace one that may be there."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)

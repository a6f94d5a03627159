"""Keys and certificates: the coordinator's certificate authority and server certificate, a site's key pair.

A site trusts the coordinator because its server certificate is signed by the authority whose certificate came
with the invitation. The coordinator trusts a site because it admitted the site's public key by hand.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedactive.errors import UserError
from fedactive.files import write_atomically

VALID = timedelta(days=3650)
BACKDATED = timedelta(days=1)  # clocks of sites may be a little behind


def make_authority_and_certificate(folder: Path, hosts: Sequence[str]) -> None:
    """Make ca.pem, server.pem and server.key for a server that is reached under these names and addresses.

    The authority's own key is not kept, so that it can sign nothing else.
    """
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority_name = _name("fedactive coordinator's authority")
    authority = (
        _certificate(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    server = (
        _certificate(_name("fedactive coordinator"), authority_name, server_key.public_key())
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA384())
    )
    (folder / "ca.pem").write_bytes(authority.public_bytes(Encoding.PEM))
    (folder / "server.pem").write_bytes(server.public_bytes(Encoding.PEM))
    write_secret(
        folder / "server.key",
        server_key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    )


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


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except (ValueError, UnsupportedAlgorithm):
        return x509.DNSName(host)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALID)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

"""The coordinator's certificates: its authority's, which every site has, and its server's, which ends sooner.

A site trusts the coordinator because its server's certificate is signed by the authority whose certificate
came with the invitation. The authority's key is kept, so that it can sign the next one: then no site has to
join again. Who can read it could pose as the coordinator, as with the server's key beside it.
"""

from __future__ import annotations

import ipaddress
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
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedactive.errors import UserError
from fedactive.files import write_atomically
from fedactive.sites.keys import write_secret

AUTHORITY_LASTS = timedelta(days=3650)
SERVER_LASTS = timedelta(days=398)
SOON = timedelta(days=30)
BACKDATED = timedelta(days=1)  # clocks of sites may be a little behind


def make_authority(folder: Path) -> None:
    """Make ca.key and ca.pem."""
    key, name = ec.generate_private_key(ec.SECP384R1()), _name("fedactive coordinator's authority")
    authority = (
        _certificate(name, name, key.public_key(), datetime.now(UTC) + AUTHORITY_LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    _write_key(folder / "ca.key", key)
    write_atomically(folder / "ca.pem", authority.public_bytes(Encoding.PEM))


def has_authority(folder: Path) -> bool:
    """Return whether ca.key can sign a server's certificate that ca.pem vouches for to its end."""
    try:
        key, authority = _read_key(folder / "ca.key"), read_certificate(folder / "ca.pem")
    except UserError:  # earlier versions kept no key, or it is cut short
        return False
    lasts = authority.not_valid_after_utc > datetime.now(UTC) + SERVER_LASTS
    return lasts and authority.public_key() == key.public_key()


def make_server_certificate(folder: Path, hosts: Sequence[str]) -> None:
    """Make server.key and server.pem for a server that is reached under these names and addresses."""
    authority_key, authority = _read_key(folder / "ca.key"), read_certificate(folder / "ca.pem")
    key = ec.generate_private_key(ec.SECP384R1())
    ends = datetime.now(UTC) + SERVER_LASTS
    server = (
        _certificate(_name("fedactive coordinator"), authority.subject, key.public_key(), ends)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA384())
    )
    _write_key(folder / "server.key", key)
    write_atomically(folder / "server.pem", server.public_bytes(Encoding.PEM))


def read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path} is not a certificate (PEM)") from None


def has_ended(certificate: Path) -> bool:
    return read_certificate(certificate).not_valid_after_utc <= datetime.now(UTC)


def describe_end(certificate: Path) -> str | None:
    """Say when a certificate ended, or ends if that is soon."""
    end, now = read_certificate(certificate).not_valid_after_utc, datetime.now(UTC)
    if end > now + SOON:
        return None
    return f"{'ended' if end <= now else 'ends'} on {end:%Y-%m-%d}"


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except (ValueError, UnsupportedAlgorithm):
        return x509.DNSName(host)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - BACKDATED)
        .not_valid_after(ends)
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


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    write_secret(path, key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UserError(f"{path} is damaged; `fedactive coordinator renew` makes a new one") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(f"{path} is another kind of key")
    return key

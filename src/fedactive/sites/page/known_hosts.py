"""Under which names and addresses people reach the page."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509

from fedactive.sites.certificates import read_certificate


def find_known_hosts(host: str, certificate: Path | None, given: Iterable[str]) -> set[str]:
    """Return the names in the certificate, the address that is served, and those `given`."""
    names = {host, *given, *(_names_in(certificate) if certificate else ())}
    return {_in_brackets(name) for name in names}


def _names_in(certificate: Path) -> list[str]:
    extensions = read_certificate(certificate).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _in_brackets(name: str) -> str:
    """Write an address as it stands in the address bar: version 6 in brackets."""
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        return name

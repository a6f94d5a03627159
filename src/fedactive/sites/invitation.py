"""What a site needs to join: where the coordinator is, and the certificate by which to know it.

It holds no secret. But somebody who can change it on its way could pose as the coordinator, so it must come
in a way that the site trusts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from fedactive.errors import ConfigurationError, UserError
from fedactive.files import load_toml, write_atomically


@dataclass(frozen=True)
class Invitation:
    address: str  # host:port
    authority: str  # the certificate of the coordinator's authority, PEM

    def write(self, path: Path) -> None:
        text = (
            "# Join with: fedactive site join DIR invitation.toml\n"
            f'address = "{self.address}"\nauthority = """\n{self.authority}"""\n'
        )
        write_atomically(path, text.encode())

    @classmethod
    def read(cls, path: Path) -> Invitation:
        try:
            content = load_toml(path.read_text(encoding="utf-8"))
            x509.load_pem_x509_certificate(content["authority"].encode())
            parse_address(content["address"])
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, KeyError, AttributeError, ConfigurationError):
            raise UserError(f"{path} is not an invitation of a coordinator, or was cut short") from None
        return cls(content["address"], content["authority"])


def parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if (
        not host
        or not (port.isascii() and port.isdecimal())
        or not 0 < int(port) < 65536
        or set(host) & set(' "/\\')
    ):
        raise ConfigurationError("address", text, "host:port, as in coordinator.example.org:9443")
    return host.strip("[]"), int(port)

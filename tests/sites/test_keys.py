"""Keys, and who may read them."""

from __future__ import annotations

import stat
import subprocess

import pytest

from fedactive.errors import UserError
from fedactive.sites.keys import read_public_key
from support.folders import make_coordinator, make_site


@pytest.fixture
def coordinator(tmp_path):
    return make_coordinator(tmp_path)


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def test_secrets_are_the_owners_alone(coordinator, site):
    secrets = [coordinator.folder / name for name in ("ca.key", "server.key")]
    secrets += [site.folder / name for name in ("site.key", "page.secret")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    assert stat.S_IMODE(coordinator.folder.stat().st_mode) == 0o700
    for folder in (coordinator.folder, site.folder):
        for path in folder.rglob("*"):
            if path.is_file() and path not in secrets:
                assert b"PRIVATE" not in path.read_bytes()


def test_a_public_key_has_the_sites_name_and_no_other_file_will_do(site, tmp_path):
    key, name = read_public_key(site.folder / "site.pub")
    assert name == "north"
    assert key.startswith(b"-----BEGIN PUBLIC KEY-----")
    for wrong in ("site.key", "site.toml"):
        with pytest.raises(UserError, match="is not a public key"):
            read_public_key(site.folder / wrong)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")]
    if subprocess.run(["which", "ssh-keygen"], capture_output=True).returncode == 0:
        subprocess.run(command, check=True)
        with pytest.raises(UserError, match="is not the key of a site"):
            read_public_key(tmp_path / "other.pub")

"""A site joins with the invitation of a coordinator."""

from __future__ import annotations

import pytest

from fedactive.errors import ConfigurationError, UserError
from fedactive.sites.coordinator.folder import Coordinator
from support.folders import make_coordinator, make_site


@pytest.fixture
def coordinator(tmp_path):
    return make_coordinator(tmp_path)


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def test_a_site_joins_with_the_invitation(coordinator, site):
    given = site.join(coordinator.folder / "invitation.toml")
    assert given.address == "coordinator.example.org:9443"
    assert (site.folder / "ca.pem").read_bytes() == (coordinator.folder / "ca.pem").read_bytes()


@pytest.mark.parametrize("cut", [0, 30, 200])
def test_a_damaged_invitation_is_refused(coordinator, site, cut):
    path = coordinator.folder / "invitation.toml"
    path.write_text(path.read_text()[:cut])
    with pytest.raises(UserError, match="is not an invitation of a coordinator"):
        site.join(path)
    assert not (site.folder / "invitation.toml").exists()


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":1", "host:0", "host:70000", "host:²", 'ho"st:1', "a b:1"]
)
def test_an_address_is_host_and_port(tmp_path, address):
    with pytest.raises(ConfigurationError, match="host:port"):
        Coordinator.init(tmp_path / "x", address)
    assert not (tmp_path / "x").exists()

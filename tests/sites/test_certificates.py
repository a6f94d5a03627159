"""The coordinator's certificates: what they are for, how long they last, and how they are renewed."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from datetime import UTC, date, datetime, timedelta
from unittest.mock import Mock

import httpx
import pytest
from cryptography import x509
from typer.testing import CliRunner

from fedactive.cli import coordinator as commands
from fedactive.cli import site as site_commands
from fedactive.errors import ConfigurationError, UserError
from fedactive.sites import certificates
from fedactive.sites.certificates import make_authority, make_server_certificate, read_certificate
from fedactive.sites.coordinator import folder as folder_module
from fedactive.sites.coordinator.serve import serve, watch_certificate
from fedactive.sites.flower.gate import Gate
from fedactive.sites.flower.processes import free_port
from fedactive.sites.flower.supernode import find_meaning
from fedactive.sites.rehearsal import wait_for
from support.folders import member


def test_the_servers_certificate_is_for_its_address_and_of_its_authority(coordinator):
    folder = coordinator.folder
    server = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["coordinator.example.org", "localhost"]
    server.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()))
    ssl.create_default_context().load_cert_chain(folder / "server.pem", folder / "server.key")


def cli(*arguments):
    return CliRunner().invoke(commands.app, [str(argument) for argument in arguments])


def lasts(path):
    return read_certificate(path).not_valid_after_utc - datetime.now(UTC)


def end_in(coordinator, monkeypatch, time):
    """Let the server's certificate end in so much time, or let it have ended."""
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "SERVER_LASTS", time)
        make_server_certificate(coordinator.folder, ["localhost"])


def test_the_server_has_a_new_certificate_each_year_and_the_authority_stays(coordinator):
    folder = coordinator.folder
    day = timedelta(days=1)
    assert 397 * day < lasts(folder / "server.pem") < 398 * day
    assert 3649 * day < lasts(folder / "ca.pem") < 3650 * day
    before = {name: (folder / name).read_bytes() for name in ("server.pem", "ca.pem", "invitation.toml")}
    done = cli("renew", folder)
    until = (datetime.now(UTC) + 398 * day).date()
    assert done.stdout == f"valid until {until}; to use it, start `fedactive coordinator serve` again\n"
    assert {name for name, content in before.items() if (folder / name).read_bytes() != content} == {
        "server.pem"
    }
    read_certificate(folder / "server.pem").verify_directly_issued_by(read_certificate(folder / "ca.pem"))
    ssl.create_default_context().load_cert_chain(folder / "server.pem", folder / "server.key")


@pytest.mark.parametrize("change", ["made by version 0.1", "cut short", "another key", "at its end"])
def test_without_a_good_authority_sites_must_join_again(coordinator, site, monkeypatch, tmp_path, change):
    folder = coordinator.folder
    site.join(folder / "invitation.toml")
    if change == "made by version 0.1":
        (folder / "ca.key").unlink()
    elif change == "cut short":
        (folder / "ca.key").write_text("-----BEGIN EC")
    elif change == "another key":
        make_authority(tmp_path)
        (folder / "ca.key").write_bytes((tmp_path / "ca.key").read_bytes())
    else:
        monkeypatch.setattr(certificates, "SERVER_LASTS", timedelta(days=4000))
    coordinator.require_certificate()  # it goes on as it is
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "make_server_certificate", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            coordinator.renew()
    if change == "at its end":
        monkeypatch.undo()
    said = cli("renew", folder).stdout
    assert said.endswith(f"all sites must join again, with this file: {folder / 'invitation.toml'}\n")
    assert (site.folder / "ca.pem").read_bytes() != (folder / "ca.pem").read_bytes()
    site.join(folder / "invitation.toml")
    read_certificate(folder / "server.pem").verify_directly_issued_by(
        read_certificate(site.folder / "ca.pem")
    )
    assert not coordinator.renew()


def test_a_coordinator_warns_a_month_before_its_certificate_ends(coordinator, monkeypatch, caplog):
    assert coordinator.certificate_notice() is None
    end_in(coordinator, monkeypatch, timedelta(days=31))
    assert coordinator.certificate_notice() is None
    end_in(coordinator, monkeypatch, timedelta(days=29))
    stopped = threading.Event()
    stopped.set()
    watch_certificate(coordinator, stopped)
    end = (datetime.now(UTC) + timedelta(days=29)).date()
    sentence = (
        f"the coordinator's certificate ends on {end}; "
        f"`fedactive coordinator renew {coordinator.folder}` makes a new one"
    )
    assert caplog.messages == [sentence]
    coordinator.require_certificate()
    (coordinator.folder / "plan.toml").write_text('dataset = "digits"')
    assert sentence in cli("run", coordinator.folder, coordinator.folder / "plan.toml").stderr


def test_after_the_end_of_its_certificate_it_serves_nobody(coordinator, monkeypatch, site):
    end_in(coordinator, monkeypatch, timedelta(seconds=-1))
    for attempt in (
        lambda: serve(coordinator, "127.0.0.1"),
        lambda: coordinator.admit(site.folder / "site.pub", None),
        lambda: commands.run(coordinator.folder, coordinator.folder / "plan.toml"),
    ):
        with pytest.raises(
            UserError, match=r"certificate ended on .*; `fedactive coordinator renew .*` makes"
        ):
            attempt()
    coordinator.renew()
    with pytest.raises(UserError, match="is not serving"):
        coordinator.admit(site.folder / "site.pub", None)


def test_a_site_says_that_the_certificate_of_its_coordinator_has_ended(coordinator, monkeypatch):
    end_in(coordinator, monkeypatch, timedelta(seconds=-1))
    port = free_port()
    gate = Gate("127.0.0.1:1", coordinator.folder, "127.0.0.1", [port], coordinator.keys)
    serving = threading.Thread(target=gate.run)
    serving.start()
    wait_for(lambda: gate.server.started, "the gate")
    trusted = ssl.create_default_context(cafile=str(coordinator.folder / "ca.pem"))
    with pytest.raises(httpx.ConnectError) as error:
        httpx.post(f"https://localhost:{port}/v1/fleet/pull-messages", verify=trusted)
    gate.server.should_exit = True
    serving.join()
    assert "has ended; the coordinator has to renew it" in find_meaning(
        f"Connection attempt failed {error.value}"
    )


@pytest.mark.parametrize(("days", "said"), [(-1, ["ended on"]), (29, ["ends on"]), (31, [])])
def test_a_page_whose_certificate_ends_says_so(coordinator, monkeypatch, site, caplog, days, said):
    end_in(coordinator, monkeypatch, timedelta(days=days) / (2 if days < 0 else 1))
    monkeypatch.setattr(site_commands, "prepare_to_serve", lambda: None)
    files = [coordinator.folder / name for name in ("server.pem", "server.key")]
    site.join(coordinator.folder / "invitation.toml")
    with pytest.raises(ConfigurationError), caplog.at_level(logging.WARNING):
        site_commands.serve(site.folder, "127.0.0.1", 0, *files, device="tpu")
    assert [words for words in said if words in caplog.text] == said
    assert len(caplog.messages) == len(said)


def test_sites_are_listed_with_the_age_of_their_keys(coordinator):
    assert cli("sites", coordinator.folder).stdout.startswith("no site is admitted yet")
    today = date.today()
    old = [
        {"name": "north", "node": 1, "key": "k"},
        {"name": "south", "node": 2, "key": "l", "dismissed": True},
    ]
    since = {"west": today - timedelta(days=729), "east": today - timedelta(days=731)}
    new = [vars(member(k)) | {"name": n, "admitted": str(day)} for k, (n, day) in enumerate(since.items())]
    (coordinator.folder / "sites.json").write_text(json.dumps({"sites": [*old, *new]}))
    assert cli("sites", coordinator.folder).stdout.splitlines() == [
        "north: admitted; earlier versions did not note when",
        "south: dismissed",
        f"west: admitted on {since['west']}",
        f"east: admitted on {since['east']}, over two years ago: the site should get a new key (docs/FIELD.md)",
    ]

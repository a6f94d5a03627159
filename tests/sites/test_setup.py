"""Folders, keys and invitations: what coordinator and sites do before anything runs, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
import subprocess
import sys
import time
import zlib
from contextlib import closing

import httpx
import numpy as np
import pytest
import torch
from cryptography import x509
from PIL import Image
from rich.console import Console

from fedactive.data import DATASETS
from fedactive.errors import ConfigurationError, DataError, UserError
from fedactive.sites.coordinator import Coordinator
from fedactive.sites.flower.gate import LARGEST_CALL, gate
from fedactive.sites.journal import Journal, read_status
from fedactive.sites.keys import read_public_key
from fedactive.sites.site import Site, read_test_images
from fedactive.sites.watch import table_of

CLASSES = ("cat", "dog")


@pytest.fixture
def coordinator(tmp_path):
    return Coordinator.init(tmp_path / "coordinator", "coordinator.example.org:9443")


@pytest.fixture
def site(tmp_path):
    write_pictures(tmp_path / "images", 5)
    for name in CLASSES:
        write_pictures(tmp_path / "test" / name, 2)
    (tmp_path / "classes.txt").write_text("cat\n\ndog\n")
    folder, images, test = (tmp_path / name for name in ("site", "images", "test"))
    return Site.init(folder, "north", images, tmp_path / "classes.txt", test)


def write_pictures(folder, count):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(zlib.crc32(folder.name.encode()))
    for k in range(count):
        Image.fromarray(rng.integers(0, 255, (8, 8), np.uint8)).save(folder / f"{k}.png")


def test_the_servers_certificate_is_for_its_address_and_of_its_authority(coordinator):
    folder = coordinator.folder
    server = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["coordinator.example.org", "localhost"]
    server.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()))
    ssl.create_default_context().load_cert_chain(folder / "server.pem", folder / "server.key")


def test_secrets_are_the_owners_alone(coordinator, site):
    secrets = [coordinator.folder / "server.key", site.folder / "site.key", site.folder / "page.secret"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    for folder in (coordinator.folder, site.folder):
        for path in folder.rglob("*"):
            if path.is_file() and path not in secrets:
                assert b"PRIVATE" not in path.read_bytes()


def test_what_exists_is_not_made_again(coordinator, site, tmp_path):
    with pytest.raises(UserError, match="is a coordinator's already"):
        Coordinator.init(coordinator.folder, "localhost:1")
    with pytest.raises(UserError, match="is a site's already"):
        Site.init(site.folder, "x", tmp_path / "images", tmp_path / "classes.txt", None)


def test_a_site_joins_with_the_invitation(coordinator, site):
    given = site.join(coordinator.folder / "invitation.toml")
    assert given.address == "coordinator.example.org:9443"
    assert (site.folder / "ca.pem").read_bytes() == (coordinator.folder / "ca.pem").read_bytes()


@pytest.mark.parametrize("cut", [0, 30, 200])
def test_a_damaged_invitation_is_refused(coordinator, site, cut):
    path = coordinator.folder / "invitation.toml"
    path.write_text(path.read_text()[:cut])
    with pytest.raises(UserError, match="is no invitation of a coordinator"):
        site.join(path)
    assert not (site.folder / "invitation.toml").exists()


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:70000", 'ho"st:1', "a b:1"])
def test_an_address_is_host_and_port(tmp_path, address):
    with pytest.raises(ConfigurationError, match="host:port"):
        Coordinator.init(tmp_path / "x", address)
    assert not (tmp_path / "x").exists()


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


def test_a_coordinator_that_does_not_serve_says_so(coordinator, site):
    with pytest.raises(UserError, match="is not serving"):
        coordinator.admit(site.folder / "site.pub", None)
    with pytest.raises(UserError, match="no site is admitted"):
        coordinator.keep_plan('dataset = "digits"')


def test_a_site_that_has_not_joined_says_so(site):
    with pytest.raises(UserError, match="has not joined"):
        site.serve("127.0.0.1", 0, None, "cpu", guess=False)


def test_a_device_that_does_not_exist_is_told_before_anything_is_served(coordinator, site):
    site.join(coordinator.folder / "invitation.toml")
    with pytest.raises(ConfigurationError, match="device: 'tpu' was given"):
        site.serve("127.0.0.1", 0, None, "tpu", guess=False)


def test_a_site_is_served_once(coordinator, site):
    site.join(coordinator.folder / "invitation.toml")
    with closing(site.hold()), pytest.raises(UserError, match="north is being served already"):
        site.serve("127.0.0.1", 0, None, "cpu", guess=False)
    site.hold().close()  # whoever held it is gone


def test_names_may_have_any_letters(tmp_path):
    write_pictures(tmp_path / "büld😀er", 2)
    (tmp_path / "classes.txt").write_text('café\n😀 "x"\n', encoding="utf-8")
    made = Site.init(tmp_path / "x", "h😀pital é", tmp_path / "büld😀er", tmp_path / "classes.txt", None)
    assert (made.name, made.classes) == ("h😀pital é", ("café", '😀 "x"'))
    assert len(made.read((1, 8, 8))) == 2
    assert read_public_key(made.folder / "site.pub")[1] == made.name


def test_classes_in_another_encoding_are_told(tmp_path):
    write_pictures(tmp_path / "images", 2)
    (tmp_path / "classes.txt").write_bytes(b"caf\xe9\nother\n")
    with pytest.raises(DataError, match=r"classes.txt is no text in UTF-8"):
        Site.init(tmp_path / "x", "x", tmp_path / "images", tmp_path / "classes.txt", None)


# ------------------------------------------------------------------------------------- who is in a run


def admitted(coordinator, count):
    sites = [{"name": f"site {k}", "node": k} for k in range(count)]
    (coordinator.folder / "sites.json").write_text(json.dumps({"sites": sites}))


def test_a_run_goes_on_with_the_sites_it_began_with(coordinator):
    text = 'dataset = "digits"\nrounds = 2'
    admitted(coordinator, 2)
    begun = coordinator.keep_plan(text)
    assert begun.experiment.clients == 2
    folder = coordinator.run_folder(begun)
    folder.mkdir(parents=True)
    admitted(coordinator, 4)
    assert coordinator.keep_plan(text) == coordinator.plan(begun.experiment.name) == begun
    assert coordinator.keep_plan(text + "\nseed = 5").experiment.clients == 4  # another run
    (folder / "done.json").write_text('{"al_rounds": 2}')
    assert coordinator.keep_plan(text).experiment.clients == 4
    assert coordinator.plan(begun.experiment.name) == begun


async def answer_of(app, path, **options):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://localhost") as client:
        return (await client.post(path, **options)).status_code


async def endless():
    yield b"x"


def test_the_gate_passes_on_what_sites_say_and_has_its_limits(coordinator):
    app = gate("127.0.0.1:1", coordinator.folder / "ca.pem")  # where nobody is
    assert asyncio.run(answer_of(app, "/v1/control/list-nodes")) == 404
    assert asyncio.run(answer_of(app, "/v1/fleet/pull-messages", content=b"x")) == 503
    assert asyncio.run(answer_of(app, "/v1/fleet/push-object", content=endless())) == 413
    large = {"content-length": str(LARGEST_CALL + 1)}
    assert asyncio.run(answer_of(app, "/v1/fleet/push-object", headers=large)) == 413


# ----------------------------------------------------------------------------------------------- images


def test_a_site_holds_its_images_in_the_form_a_run_wants(site):
    held = site.holdings(DATASETS["digits"])
    assert held.images.shape == (5, 1, 8, 8)
    assert held.test_labels.tolist() == [0, 0, 1, 1]
    assert held.test_images.dtype == torch.uint8


def test_images_that_changed_are_refused_because_labels_belong_to_numbers(site, tmp_path):
    site.read((1, 8, 8))
    write_pictures(tmp_path / "more", 1)
    (tmp_path / "more" / "0.png").rename(tmp_path / "images" / "00.png")
    with pytest.raises(DataError, match="are not those of the first start"):
        site.read((1, 8, 8))


def test_what_is_left_out_is_told_when_the_site_is_made(tmp_path, caplog):
    write_pictures(tmp_path / "images", 2)
    (tmp_path / "images" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    Site.init(tmp_path / "x", "x", tmp_path / "images", tmp_path / "classes.txt", None)
    assert caplog.messages == ["broken.png is left out: it is not a PNG or JPEG image"]


def test_a_site_leaves_out_what_cannot_be_used_and_needs_something_that_can(site, tmp_path):
    images = tmp_path / "images"
    (images / "0.png").write_bytes(b"no picture")
    (images / "1.png").write_bytes((images / "2.png").read_bytes())
    assert len(site.holdings(DATASETS["digits"]).images) == 3
    report = site.read((1, 8, 8)).report
    assert [name for name, _ in report.unreadable] == ["0.png"]
    assert report.duplicates == (("2.png", "1.png"),)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="no image that can be used"):
        Site.init(tmp_path / "other", "x", tmp_path / "nothing", tmp_path / "classes.txt", None)
    assert not (tmp_path / "other").exists()


def test_test_images_of_an_npz(tmp_path):
    images = np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8)
    np.savez(tmp_path / "a.npz", test_images=images, test_labels=np.array([[1], [0], [1]]))
    found, labels = read_test_images(tmp_path / "a.npz", CLASSES, (1, 8, 8))
    assert torch.equal(found, torch.from_numpy(images)[:, None])
    assert labels.tolist() == [1, 0, 1]
    np.savez(tmp_path / "b.npz", test_images=images, test_labels=np.array([1, 0, 2]))
    with pytest.raises(DataError, match="does not number the classes"):
        read_test_images(tmp_path / "b.npz", CLASSES, (1, 8, 8))


def test_a_test_folder_that_is_no_class_is_named(site, tmp_path):
    write_pictures(tmp_path / "test" / "horse", 1)
    with pytest.raises(DataError, match="horse is not named after a class"):
        site.holdings(DATASETS["digits"])


# -------------------------------------------------------------------------------------- the command line


def fedactive(*arguments, code=""):
    program = [sys.executable, "-c", code + "from fedactive.cli import main; main()", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True)


def test_a_mistake_is_one_sentence(tmp_path):
    done = fedactive("coordinator", "admit", tmp_path, tmp_path / "site.pub")
    assert done.returncode == 1
    assert done.stderr == (
        f"fedactive: {tmp_path} is no coordinator's folder; `fedactive coordinator init` makes one\n"
    )


def test_people_come_get_another_token_and_go(site):
    token = fedactive("site", "annotator", site.folder, "Ada L.").stdout.strip()
    again = fedactive("site", "annotator", site.folder, "Ada L.")
    assert again.stderr == (
        "fedactive: there is already an annotator 'Ada L.'; --renew gives them a new token\n"
    )
    other = fedactive("site", "annotator", site.folder, "Ada L.", "--renew").stdout.strip()
    with closing(site.store()) as store:
        assert store.annotators.with_token(token) is None
        assert store.annotators.with_token(other).name == "Ada L."
    gone = fedactive("site", "annotator", site.folder, "Ada L.", "--remove")
    assert gone.stdout == "Ada L. cannot sign in any more; their answers stay\n"
    with closing(site.store()) as store:
        assert store.annotators.with_token(other) is None


def test_without_the_extra_a_sentence_says_what_to_install(tmp_path):
    done = fedactive("coordinator", "init", tmp_path / "c", code="import sys; sys.modules['flwr'] = None; ")
    assert done.returncode == 1
    assert done.stderr == "fedactive: flwr is missing: pip install 'fedactive[sites]' brings it\n"
    assert not (tmp_path / "c").exists()


def test_the_status_of_a_run_is_shown_site_by_site():
    sites = {"north": {"online": True, "labelled_in_all": 7, "pending": 2, "al_round": 1}, "south": {}}
    sites["[/b] east"] = {}  # no markup, whatever it looks like
    sites["north"]["last_seen"] = time.time() + 3600  # the clock was set back since
    status = {"phase": "AL round 1", "sites": sites, "dropped": [{"what": "south sent nonsense"}]}
    console = Console(width=100)
    with console.capture() as shown:
        console.print(table_of(status | {"accuracy": 0.5}))
    for words in (
        "north",
        "online",
        "away",
        "[/b] east",
        "never",
        " 0 s ago",
        "50.0%",
        "dropped: south sent nonsense",
        "AL round 1",
    ):
        assert words in shown.get()


def test_a_run_that_goes_on_shows_what_was_known_of_its_sites(tmp_path):
    assert read_status(tmp_path)["phase"] == "starting"
    before = Journal(tmp_path, ["north", "south"])
    before.note(0, labelled_in_all=7)
    before.online({0})
    before.dropped(1, "sent nonsense")
    before.phase("AL round 1: FL round 2 of 4")
    after = Journal(tmp_path, ["north", "south"])
    assert after.run == before.run
    after.phase("AL round 1: FL round 3 of 4")
    status = read_status(tmp_path)
    assert status["sites"]["north"] == {"labelled_in_all": 7, "online": False}
    assert [item["what"] for item in status["dropped"]] == ["south sent nonsense"]


def test_a_deadline_is_decided_once_and_can_be_given_up(tmp_path):
    decided = Journal(tmp_path, ["north"]).deadline(1, 3600)
    later = Journal(tmp_path, ["north"])
    assert later.deadline(1, 60) == decided
    assert later.deadline(2, 60) < decided
    assert later.deadline(1, 0) is None

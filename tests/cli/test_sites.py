"""Folders, keys and invitations: what coordinator and sites do before anything runs, and what they refuse."""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
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
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from fedactive.cli.site import app as site_app
from fedactive.data import DATASETS
from fedactive.errors import ConfigurationError, DataError, UserError
from fedactive.files import write_json
from fedactive.sites.coordinator import coordinator as admission
from fedactive.sites.coordinator.coordinator import Coordinator
from fedactive.sites.coordinator.journal import Journal, read_status
from fedactive.sites.coordinator.watch import display, how_it_ended, table_of
from fedactive.sites.flower.gate import LARGEST_CALL, REFUSED, gate
from fedactive.sites.flower.processes import free_port
from fedactive.sites.keys import make_site_key, read_public_key
from fedactive.sites.site.site import Site, read_test_images

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
    assert stat.S_IMODE(coordinator.folder.stat().st_mode) == 0o700
    for folder in (coordinator.folder, site.folder):
        for path in folder.rglob("*"):
            if path.is_file() and path not in secrets:
                assert b"PRIVATE" not in path.read_bytes()


def test_what_exists_is_not_made_again(coordinator, site, tmp_path):
    with pytest.raises(UserError, match="is a coordinator's already"):
        Coordinator.init(coordinator.folder, "localhost:1")
    with pytest.raises(UserError, match="is a site's already"):
        Site.init(site.folder, "x", tmp_path / "images", tmp_path / "classes.txt", None)


def test_an_init_that_was_cut_short_is_done_again(tmp_path):
    folder = tmp_path / "c"
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "  # no room for any file
    cut = fedactive("coordinator", "init", folder, code=full)
    assert cut.returncode == 1
    assert cut.stderr == f"fedactive: cannot make a coordinator in {folder}: File too large\n"
    for name in ("server.pem", "server.key"):
        (folder / name).write_text("half of it")
    Coordinator.init(folder, "localhost:1")
    ssl.create_default_context().load_cert_chain(folder / "server.pem", folder / "server.key")


def test_a_coordinator_is_no_file(tmp_path):
    (tmp_path / "c").write_text("a file")
    with pytest.raises(UserError, match=r"cannot make a coordinator in .*: File exists"):
        Coordinator.init(tmp_path / "c", "localhost:1")


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


def test_a_coordinator_that_was_killed_says_so(coordinator, site):
    write_json(coordinator.folder / "serving.json", {"address": f"127.0.0.1:{free_port()}", "pid": 1})
    with pytest.raises(UserError, match=r"does not answer .*; is `fedactive coordinator serve` running\?"):
        coordinator.admit(site.folder / "site.pub", None)


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


def test_a_signal_ends_a_site_in_good_order_also_while_it_trains(tmp_path):
    program = """
import signal, sys, threading, time, torch
from pathlib import Path
from fedactive.cli import site as commands
from fedactive.sites.site.site import Site

training = threading.Event()

def train():
    layer, images = torch.nn.Conv2d(1, 8, 3), torch.zeros(8, 1, 16, 16)
    while True:
        layer(images).sum().backward()
        training.set()

class Training:
    def serve(self, *_):
        threading.Thread(target=train, daemon=True).start()
        training.wait()
        signal.raise_signal(signal.SIGTERM)

Site.open = lambda folder: Training()
commands.serve(Path("north"))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_path_that_is_no_text_is_told(tmp_path):
    write_pictures(tmp_path / "caf\udce9" / "images", 2)
    (tmp_path / "classes.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match="the path of the images is no text in UTF-8; rename its folders"):
        Site.init(
            tmp_path / "north", "north", tmp_path / "caf\udce9" / "images", tmp_path / "classes.txt", None
        )
    assert not (tmp_path / "north").exists()


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


def admitted(coordinator, count, dismissed=()):
    coordinator.write_sites([site_of(k, k in dismissed) for k in range(count)])


def site_of(k, dismissed=False):
    return admission.Site(f"site {k}", k, f"key {k}", dismissed)


def test_a_run_goes_on_with_the_sites_it_began_with(coordinator):
    text = 'dataset = "digits"\nrounds = 2'
    admitted(coordinator, 2)
    begun = coordinator.keep_plan(text)
    assert begun.experiment.clients == 2
    folder = coordinator.run_folder(begun)
    coordinator.begin(begun)
    admitted(coordinator, 4)
    assert coordinator.keep_plan(text) == coordinator.plan(begun.experiment.name) == begun
    assert coordinator.keep_plan(text + "\nseed = 5").experiment.clients == 4  # another run
    (folder / "done.json").write_text('{"al_rounds": 2}')
    assert coordinator.keep_plan(text).experiment.clients == 4
    assert coordinator.plan(begun.experiment.name) == begun


def test_a_dismissed_site_keeps_its_number_in_runs_that_began_with_it_and_is_in_no_new_one(coordinator):
    text = 'dataset = "digits"\nrounds = 2'
    admitted(coordinator, 3)
    begun = coordinator.keep_plan(text)
    coordinator.begin(begun)
    admitted(coordinator, 5, dismissed={1})
    assert coordinator.keep_plan(text) == coordinator.plan(begun.experiment.name) == begun
    assert coordinator.sites_of(begun) == [site_of(0), site_of(1, dismissed=True), site_of(2)]
    other = coordinator.keep_plan(text + "\nseed = 5")
    assert other.experiment.clients == 4
    coordinator.begin(other)
    assert coordinator.sites_of(other) == [site_of(k) for k in (0, 2, 3, 4)]
    shutil.rmtree(coordinator.run_folder(begun))  # abandoned
    assert coordinator.keep_plan(text).experiment.clients == 4


@pytest.mark.parametrize("ended", [False, True])
def test_a_plan_about_other_images_is_no_plan_of_a_run_that_has_begun(coordinator, monkeypatch, ended):
    admitted(coordinator, 1)
    text = 'dataset = "chest"\n[images]\nclasses = ["a", "b"]\nsize = 16\n'
    begun = coordinator.keep_plan(text)
    assert coordinator.keep_plan(text.replace("16", "32")).images.size == 32  # it has not
    coordinator.keep_plan(text)
    coordinator.begin(begun)
    monkeypatch.setattr(admission, "completed_rounds", lambda _: begun.experiment.rounds if ended else 1)
    assert coordinator.keep_plan(text + "[field]\ndeadline = 2") == coordinator.plan(begun.experiment.name)
    with pytest.raises(
        ConfigurationError, match=r"images.size: 32 was given, allowed is 16, as this run began"
    ):
        coordinator.keep_plan(text.replace("16", "32"))
    assert coordinator.plan(begun.experiment.name).images == begun.images
    other = coordinator.keep_plan(text.replace("chest", "chest-32").replace("16", "32"))
    assert other.experiment.name != begun.experiment.name


# -------------------------------------------------------------------------------------------- the gate


def bearing(key):
    """The header with which a SuperNode shows its key."""
    return {FLEET_HTTP_PUBLIC_KEY_HEADER: base64.b64encode(key.encode()).decode()}


async def status_of(app, path, content=b"", **headers):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://localhost") as client:
        return (await client.post(path, content=content, headers=headers)).status_code


def answer_of(*arguments, **headers):
    return asyncio.run(status_of(*arguments, **headers))


async def endless():
    yield b"x"


def test_the_gate_passes_on_what_sites_say_and_has_its_limits(coordinator):
    app = gate("127.0.0.1:1", coordinator.folder / "ca.pem", lambda: ["key"])  # where nobody is
    site = bearing("key")
    assert answer_of(app, "/v1/control/list-nodes", **site) == 404
    assert answer_of(app, "/v1/fleet/pull-messages", b"x", **site) == 503
    assert answer_of(app, "/v1/fleet/push-object", endless(), **site) == 413
    assert answer_of(app, "/v1/fleet/push-object", **{"content-length": str(LARGEST_CALL + 1)}, **site) == 413


def test_the_gate_reads_nothing_of_what_strangers_say(coordinator):
    async def unread():
        raise AssertionError("it was read")
        yield

    admitted(coordinator, 2)
    app = gate("127.0.0.1:1", coordinator.folder / "ca.pem", coordinator.keys)
    assert answer_of(app, "/v1/fleet/push-object", unread()) == REFUSED
    assert answer_of(app, "/v1/fleet/push-object", unread(), **bearing("key 2")) == REFUSED
    assert answer_of(app, "/v1/fleet/push-object", b"x", **bearing("key 1")) == 503
    admitted(coordinator, 3, dismissed={1})  # holds at once
    assert answer_of(app, "/v1/fleet/push-object", unread(), **bearing("key 1")) == REFUSED
    assert answer_of(app, "/v1/fleet/push-object", b"x", **bearing("key 2")) == 503


def asked_behind_the_gate(coordinator, call):
    """The first lines of what comes through to where the SuperLink would be."""
    lines = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(coordinator.folder / "server.pem", coordinator.folder / "server.key")

    async def answer(reader, writer):
        lines.append((await reader.readline()).decode().strip())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def listen():
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
            address = f"localhost:{server.sockets[0].getsockname()[1]}"
            app = gate(address, coordinator.folder / "ca.pem", lambda: ["key"])
            async with app.router.lifespan_context(app):
                await call(app)

    asyncio.run(listen())
    return lines


@pytest.mark.parametrize("host", ["localhost", "a/v1/control/list-nodes?", "a/v1/control/list-nodes#"])
def test_no_header_leads_around_the_gate(coordinator, host):
    async def call(app):
        await status_of(app, "/v1/fleet/pull-messages", b"x", host=host, **bearing("key"))

    assert asked_behind_the_gate(coordinator, call) == ["POST /v1/fleet/pull-messages HTTP/1.1"]


def test_a_site_that_hangs_up_in_the_middle_is_no_error(coordinator):
    async def hang_up():
        return {"type": "http.disconnect"}

    async def nobody_listens(message):
        pass

    headers = {"content-length": "1000", **bearing("key")}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/fleet/push-object",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asked_behind_the_gate(coordinator, lambda app: app(scope, hang_up, nobody_listens))


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


def test_test_images_that_are_left_out_are_told(site, tmp_path, caplog):
    test = tmp_path / "test"
    (test / "cat" / "broken.png").write_bytes(b"no picture")
    (test / "dog" / "9.png").write_bytes((test / "dog" / "0.png").read_bytes())
    told = [
        "among the test images, cat/broken.png is left out: it is not a PNG or JPEG image",
        "among the test images, dog/9.png is left out: the same picture as dog/0.png",
    ]
    Site.init(tmp_path / "other", "x", tmp_path / "images", tmp_path / "classes.txt", test)
    assert caplog.messages == told
    assert len(site.holdings(DATASETS["digits"]).test_images) == 4
    assert caplog.messages == told * 2


def test_a_test_picture_of_two_classes_is_refused(site, tmp_path):
    test = tmp_path / "test"
    (test / "dog" / "x.png").write_bytes((test / "cat" / "0.png").read_bytes())
    with pytest.raises(
        DataError, match=r"test/cat/0.png and .*test/dog/x.png are the same picture in two classes"
    ):
        site.holdings(DATASETS["digits"])


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
    program = [
        sys.executable,
        "-c",
        code + "from fedactive.cli.app import main; main()",
        *map(str, arguments),
    ]
    return subprocess.run(program, capture_output=True, text=True)


def test_a_mistake_is_one_sentence(tmp_path):
    done = fedactive("coordinator", "admit", tmp_path, tmp_path / "site.pub")
    assert done.returncode == 1
    assert done.stderr == (
        f"fedactive: {tmp_path} is no coordinator's folder; `fedactive coordinator init` makes one\n"
    )


def test_a_site_has_a_name_that_can_be_shown(site, coordinator, tmp_path):
    options = ("--images", tmp_path / "images", "--classes", tmp_path / "classes.txt")
    done = fedactive("site", "init", tmp_path / "x", "--name", "\x1b[31mred", *options)
    assert done.returncode == 1
    sentence = "'\\x1b[31mred' is no name: 1 to 60 printable characters, please"
    assert done.stderr == f"fedactive: {sentence}\n"
    assert not (tmp_path / "x").exists()
    make_site_key(tmp_path / "key", tmp_path / "key.pub", "\x1b[31mred")  # a stranger does not ask us
    with pytest.raises(UserError, match=re.escape(sentence)):
        coordinator.admit(tmp_path / "key.pub", None)


def test_people_come_get_another_token_and_go(site):
    token = fedactive("site", "annotator", site.folder, "Ada L.").stdout.strip()
    again = fedactive("site", "annotator", site.folder, "Ada L.")
    assert again.stderr == (
        "fedactive: there is already an annotator 'Ada L.'; --renew gives them a new token\n"
    )
    other = fedactive("site", "annotator", site.folder, "Ada L.", "--renew", "--lead").stdout.strip()
    with closing(site.store()) as store:
        assert store.annotators.with_token(token) is None
        assert store.annotators.with_token(other).name == "Ada L."
        assert store.annotators.with_token(other).role == "lead"
    gone = fedactive("site", "annotator", site.folder, "Ada L.", "--remove")
    assert gone.stdout == "Ada L. cannot sign in any more; their answers stay\n"
    with closing(site.store()) as store:
        assert store.annotators.with_token(other) is None


def test_a_site_closes_what_an_abandoned_run_asks_of_its_people(site):
    def close(*run):
        return CliRunner().invoke(site_app, ["close", str(site.folder), *run])

    assert close().stdout == "no run asks for labels now\n"
    assert str(close("old").exception) == "no run has asked for labels here yet"
    with closing(site.store()) as serving:
        serving.annotators.add("ada")
        ada = serving.annotators.named("ada")
        serving.rounds.open("old-run", 3, [0, 1, 2], "logo", None)
        serving.rounds.open("new-run", 1, [3, 4], "logo", None)
        serving.answers.record(ada, 0, "label", 1)
        asking = [line.split(": ")[0] for line in close().stdout.splitlines()]
        assert asking == ["old-run", "new-run"]
        assert close().stdout.endswith(", 2 images to label\n")
        assert str(close("old").exception).endswith(
            "allowed is one of new-run, old-run; did you mean 'old-run'?"
        )
        assert close("old-run").stdout == "old-run asks for nothing more\n"
        assert close("old-run").stdout == "old-run was asking for nothing\n"
        assert [one.sample for one in serving.queues.next(ada, "round", 9)] == [3, 4]
        assert [one.sample for one in serving.queues.next(ada, "late", 9)] == [1, 2]
        assert serving.labels() == serving.labels_at_close("old-run", 3) == {0: 1}
        serving.rounds.open("old-run", 4, [1], "logo", None)  # it was not abandoned
        assert len(serving.rounds.asking()) == 2


def test_without_the_extra_a_sentence_says_what_to_install(tmp_path):
    done = fedactive("coordinator", "init", tmp_path / "c", code="import sys; sys.modules['flwr'] = None; ")
    assert done.returncode == 1
    assert done.stderr == "fedactive: flwr is missing: pip install 'fedactive[sites]' brings it\n"
    assert not (tmp_path / "c").exists()


def test_the_status_of_a_run_is_shown_site_by_site():
    sites = {"north": {"online": True, "labelled_in_all": 7, "pending": 2, "al_round": 1}, "south": {}}
    sites["[/b] east"] = {}  # no markup, whatever it looks like
    sites["west"] = {"dismissed": True, "online": False}
    sites["north"]["last_seen"] = time.time() + 3600  # the clock was set back since
    status = {"phase": "AL round 1", "sites": sites, "dropped": [{"what": "south sent nonsense"}]}
    console = Console(width=100)
    with console.capture() as shown:
        console.print(table_of(status | {"accuracy": 0.5}))
    for words in (
        "north",
        "online",
        "away",
        "dismissed",
        "[/b] east",
        "never",
        " 0 s ago",
        "50.0%",
        "dropped: south sent nonsense",
        "AL round 1",
    ):
        assert words in shown.get()


def test_without_a_terminal_lines_say_what_happens_and_why_it_does_not(capsys):
    status = {"phase": "waiting for south", "sites": {"north": {"labelled_in_all": 7}}, "dropped": []}
    with display() as show:
        for _ in range(3):
            show(status)
            status["dropped"] += [{"time": 1.0, "what": "south has other classes"}]
        show(status | {"phase": "finished"})
    assert capsys.readouterr().out.splitlines() == [
        "waiting for south; labelled: north 7",
        "dropped: south has other classes",
        "finished; labelled: north 7",
    ]


def test_the_same_command_is_advised_where_it_helps():
    assert "the same command goes on" in how_it_ended({"phase": "AL round 1: FL round 2 of 4"})
    assert (
        how_it_ended({"phase": "stopped: budget: 0.5 was given"}) == "the run stopped: budget: 0.5 was given"
    )


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


def test_a_deadline_counts_from_the_rounds_beginning_by_the_plan_of_now(tmp_path):
    first = Journal(tmp_path, ["north"]).deadline(1, 3600)
    later = Journal(tmp_path, ["north"])
    assert later.deadline(1, 3600) == first
    assert later.deadline(1, 60) == first - 3540
    assert later.deadline(2, 60) > first - 3540
    assert later.deadline(1, 0) is None

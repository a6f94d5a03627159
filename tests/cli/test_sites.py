"""The commands of coordinator and site."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from contextlib import closing

import pytest
from typer.testing import CliRunner

from fedactive.cli.site import app as site_app
from fedactive.errors import UserError
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.keys import make_site_key
from support.commands import cli
from support.folders import make_coordinator, make_site


@pytest.fixture
def coordinator(tmp_path):
    return make_coordinator(tmp_path)


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def cli_after(code, *arguments):
    """A command in a process that has run this code."""
    program = [sys.executable, "-c", f"{code}; from fedactive.cli.app import main; main()"]
    return subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True)


def test_an_init_that_was_cut_short_is_done_again(tmp_path):
    folder = tmp_path / "c"
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"  # no room for any file
    cut = cli_after(full, "coordinator", "init", folder)
    assert cut.returncode == 1
    assert cut.stderr == f"fedactive: cannot make a coordinator in {folder}: File too large\n"
    for name in ("server.pem", "server.key"):
        (folder / name).write_text("half of it")
    Coordinator.init(folder, "localhost:1")
    ssl.create_default_context().load_cert_chain(folder / "server.pem", folder / "server.key")


def test_a_mistake_is_one_sentence(tmp_path):
    done = cli("coordinator", "admit", tmp_path, tmp_path / "site.pub")
    assert done.returncode == 1
    assert done.stderr == (
        f"fedactive: {tmp_path} is not a coordinator's folder; `fedactive coordinator init` makes one\n"
    )


def test_a_site_has_a_name_that_can_be_shown(site, coordinator, tmp_path):
    options = ("--images", tmp_path / "images", "--classes", tmp_path / "classes.txt")
    done = cli("site", "init", tmp_path / "x", "--name", "\x1b[31mred", *options)
    assert done.returncode == 1
    sentence = "'\\x1b[31mred' is not a name: use 1 to 60 printable characters"
    assert done.stderr == f"fedactive: {sentence}\n"
    assert not (tmp_path / "x").exists()
    make_site_key(tmp_path / "key", tmp_path / "key.pub", "\x1b[31mred")  # a stranger does not ask us
    with pytest.raises(UserError, match=re.escape(sentence)):
        coordinator.admit(tmp_path / "key.pub", None)


def test_people_come_get_another_token_and_go(site):
    token = cli("site", "annotator", site.folder, "Ada L.").stdout.strip()
    again = cli("site", "annotator", site.folder, "Ada L.")
    assert again.stderr == (
        "fedactive: there is already an annotator 'Ada L.'; --renew gives them a new token\n"
    )
    other = cli("site", "annotator", site.folder, "Ada L.", "--renew", "--lead").stdout.strip()
    with closing(site.store()) as store:
        assert store.annotators.find_by_token(token) is None
        assert store.annotators.find_by_token(other).name == "Ada L."
        assert store.annotators.find_by_token(other).role == "lead"
    gone = cli("site", "annotator", site.folder, "Ada L.", "--remove")
    assert gone.stdout == "Ada L. cannot sign in any more; their answers stay\n"
    with closing(site.store()) as store:
        assert store.annotators.find_by_token(other) is None


def test_a_site_closes_what_an_abandoned_run_asks_of_its_people(site):
    def close(*run):
        return CliRunner().invoke(site_app, ["close", str(site.folder), *run])

    assert close().stdout == "no run asks for labels now\n"
    assert str(close("old").exception) == "no run has asked for labels here yet"
    with closing(site.store()) as serving:
        serving.annotators.add("ada")
        ada = serving.annotators.find("ada")
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
        assert len(serving.rounds.find_open()) == 2


def test_without_the_extra_a_sentence_says_what_to_install(tmp_path):
    done = cli_after("import sys; sys.modules['flwr'] = None", "coordinator", "init", tmp_path / "c")
    assert done.returncode == 1
    assert done.stderr == "fedactive: flwr is missing: pip install 'fedactive[sites]' brings it\n"
    assert not (tmp_path / "c").exists()

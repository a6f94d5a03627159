"""`fedactive new`: what it writes works as it stands, and passes its own test."""

import pytest

from fedactive.cli.new import BY_KIND, Kind
from support.commands import cli

SHORT = (
    *("--dataset", "digits", "--augment", "none", "--clients", "2", "--rounds", "2", "--fl-rounds", "1"),
    *("--local-epochs", "1", "--local-only-epochs", "1"),
)
OWN_TESTS = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))"


def test_every_kind_that_can_be_chosen_can_be_written():
    assert {kind.value for kind in Kind} == set(BY_KIND)


def test_every_kind_passes_its_own_test(tmp_path):
    for kind in BY_KIND:
        done = cli("new", kind, f"my_{kind}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(f"now: fedactive run --plugin my_{kind}.py --{kind} my_{kind}\n")
    checked = cli(before=OWN_TESTS, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert f"{len(BY_KIND) + 1} passed" in checked.stdout  # a strategy has two tests


def test_all_of_them_run_together(tmp_path):
    plugins, choices = [], []
    for kind in BY_KIND:
        cli("new", kind, "mine", "--folder", kind, cwd=tmp_path)
        plugins += ["--plugin", f"{kind}/mine.py"]
        choices += [f"--{kind}", "mine"]
    done = cli("run", *plugins, *choices, *SHORT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").glob("digits-mine-*")

    strategy = tmp_path / "strategy" / "mine.py"
    strategy.write_text(strategy.read_text() + "# changed\n")
    refused = cli("run", *plugins, *choices, *SHORT, cwd=tmp_path)
    assert refused.returncode == 1
    assert "begin it anew with --fresh" in refused.stderr
    begun = cli("run", *plugins, *choices, *SHORT, "--fresh", cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    assert (tmp_path / "runs" / ".outdated" / f"{folder.name}.1" / "done.json").exists()
    again = cli("run", *plugins, *choices, *SHORT, "--fresh", cwd=tmp_path)
    assert "AL round" in again.stdout
    assert not (tmp_path / "runs" / ".outdated" / f"{folder.name}.2").exists()  # nothing has changed


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("strategy", "logo", "a name that no strategy of fedactive has"),
        ("model", "My-Model", "small letters, digits and _"),
        ("model", "class", "small letters, digits and _"),
        ("strategy", "there", "one whose files do not exist yet: there.py does"),
    ],
)
def test_a_bad_name_is_one_sentence_and_nothing_is_written(tmp_path, kind, name, sentence):
    (tmp_path / "there.py").write_text("mine")
    done = cli("new", kind, name, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"]
    assert (tmp_path / "there.py").read_text() == "mine"

"""The coordinator's folder: how it is made, who is admitted, and which sites a run has."""

from __future__ import annotations

import shutil

import pytest

from fedactive.errors import ConfigurationError, UserError
from fedactive.files import write_json
from fedactive.sites.coordinator import folder as folder_module
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.flower.processes import free_port
from support.folders import admit, member


def test_what_exists_is_not_made_again(coordinator):
    with pytest.raises(UserError, match="is a coordinator's already"):
        Coordinator.init(coordinator.folder, "localhost:1")


def test_a_coordinator_is_no_file(tmp_path):
    (tmp_path / "c").write_text("a file")
    with pytest.raises(UserError, match=r"cannot make a coordinator in .*: File exists"):
        Coordinator.init(tmp_path / "c", "localhost:1")


def test_a_coordinator_that_does_not_serve_says_so(coordinator, site):
    with pytest.raises(UserError, match="is not serving"):
        coordinator.admit(site.folder / "site.pub", None)
    with pytest.raises(UserError, match="no site is admitted"):
        coordinator.keep_plan('dataset = "digits"')


def test_a_coordinator_that_was_killed_says_so(coordinator, site):
    write_json(coordinator.folder / "serving.json", {"address": f"127.0.0.1:{free_port()}", "pid": 1})
    with pytest.raises(UserError, match=r"does not answer .*; is `fedactive coordinator serve` running\?"):
        coordinator.admit(site.folder / "site.pub", None)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"sites": 1}', b'{"sites": [1]}', b'{"sites": [{"name": 1}]}']
)
def test_a_damaged_list_of_sites_is_named(coordinator, content):
    (coordinator.folder / "sites.json").write_bytes(content)
    with pytest.raises(UserError, match=r"sites.json is damaged; restore it from a backup"):
        coordinator.all_sites()


def test_a_damaged_plan_of_another_run_is_in_nobodys_way(coordinator):
    admit(coordinator, 2)
    other = coordinator.keep_plan('dataset = "digits"\nseed = 2')
    coordinator.begin(other)
    coordinator.plan_file(other.experiment.name).write_bytes(b"\x80")
    assert coordinator.keep_plan('dataset = "digits"').experiment.clients == 2
    with pytest.raises(UserError, match=r"toml cannot be read; restore it from a backup"):
        coordinator.plan(other.experiment.name)


# ------------------------------------------------------------------------------------- who is in a run


def test_a_run_goes_on_with_the_sites_it_began_with(coordinator):
    text = 'dataset = "digits"\nrounds = 2'
    admit(coordinator, 2)
    begun = coordinator.keep_plan(text)
    assert begun.experiment.clients == 2
    folder = coordinator.run_folder(begun)
    coordinator.begin(begun)
    admit(coordinator, 4)
    assert coordinator.keep_plan(text) == coordinator.plan(begun.experiment.name) == begun
    assert coordinator.keep_plan(text + "\nseed = 5").experiment.clients == 4  # another run
    (folder / "done.json").write_text('{"al_rounds": 2}')
    assert coordinator.keep_plan(text).experiment.clients == 4
    assert coordinator.plan(begun.experiment.name) == begun


def test_a_dismissed_site_keeps_its_number_in_runs_that_began_with_it_and_is_in_no_new_one(coordinator):
    text = 'dataset = "digits"\nrounds = 2'
    admit(coordinator, 3)
    begun = coordinator.keep_plan(text)
    coordinator.begin(begun)
    admit(coordinator, 5, dismissed=(1,))
    assert coordinator.keep_plan(text) == coordinator.plan(begun.experiment.name) == begun
    assert coordinator.sites_of(begun) == [member(0), member(1, dismissed=True), member(2)]
    other = coordinator.keep_plan(text + "\nseed = 5")
    assert other.experiment.clients == 4
    coordinator.begin(other)
    assert coordinator.sites_of(other) == [member(k) for k in (0, 2, 3, 4)]
    shutil.rmtree(coordinator.run_folder(begun))  # abandoned
    assert coordinator.keep_plan(text).experiment.clients == 4


@pytest.mark.parametrize("ended", [False, True])
def test_a_plan_about_other_images_is_no_plan_of_a_run_that_has_begun(coordinator, monkeypatch, ended):
    admit(coordinator, 1)
    text = 'dataset = "chest"\n[images]\nclasses = ["a", "b"]\nsize = 16\n'
    begun = coordinator.keep_plan(text)
    assert coordinator.keep_plan(text.replace("16", "32")).images.size == 32  # it has not
    coordinator.keep_plan(text)
    coordinator.begin(begun)
    monkeypatch.setattr(folder_module, "completed_rounds", lambda _: begun.experiment.rounds if ended else 1)
    assert coordinator.keep_plan(text + "[field]\ndeadline = 2") == coordinator.plan(begun.experiment.name)
    with pytest.raises(
        ConfigurationError, match=r"images.size: 32 was given, allowed is 16, as this run began"
    ):
        coordinator.keep_plan(text.replace("16", "32"))
    assert coordinator.plan(begun.experiment.name).images == begun.images
    other = coordinator.keep_plan(text.replace("chest", "chest-32").replace("16", "32"))
    assert other.experiment.name != begun.experiment.name

"""A backbone between sites: the laboratory's numbers, from features that each site makes of its own images."""

from __future__ import annotations

import dataclasses
import shutil

import pytest
import torch

from fedactive.backbones import embedding
from fedactive.errors import ConfigurationError, RunError, UserError
from fedactive.laboratory import run as laboratory
from fedactive.laboratory.inputs import load_inputs
from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.checks import BadReplyError, read_moments
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.coordinator.status import read_status
from fedactive.sites.messages import OTHER_BACKBONE, Reply
from fedactive.sites.moments import Moments, from_text, moments_of, standardisation_of, to_text
from support.folders import admit
from support.loopback import Unchanging, held, loopback
from support.networks import FEATURES, write_onnx, write_torchscript

NAMES = ["north", "south", "west"]
PLAN = """
dataset = "birds"
rounds = 1

[images]
classes = ["owl", "wren"]
backbone = "mine.onnx"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "laboratory"))


@pytest.fixture
def file(tmp_path):
    return write_torchscript(tmp_path / "mine.pt")


@pytest.fixture
def experiment(small, file):
    return small(backbone=file, image_size=16, model="linear", rounds=2, strategy="badge", first="typiclust")


def sites_with(file, experiment, tmp_path):
    transport = loopback(experiment, tmp_path)
    for trainer in transport.trainers:
        (trainer.folder.parent / "backbones").mkdir()
        shutil.copy(file, trainer.folder.parent / "backbones" / "anything.pt")  # its content counts
    return transport


def plan_of(experiment, tmp_path):
    return FieldPlan(dataclasses.replace(experiment, runs_dir=tmp_path / "coordinator"), Rules())


def test_sites_give_the_laboratorys_numbers(experiment, file, tmp_path):
    lab = laboratory.run(experiment)
    transport = sites_with(file, experiment, tmp_path)
    result = run_plan(plan_of(experiment, tmp_path), transport, NAMES)
    theirs, ours = (read_checkpoint(r.folder / "checkpoint.pt").server.weights for r in (lab, result))
    assert ours.keys() == {"head.weight", "head.bias"}  # all that ever travels
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-3, atol=1e-4)
    assert result.accuracy.tolist() == pytest.approx(lab.accuracy.tolist(), abs=2e-3)
    # What a site has embedded lies in its own folder.
    assert list((tmp_path / "site0" / "cache" / "embeddings").iterdir())


def test_images_are_embedded_once(experiment, file, tmp_path, monkeypatch):
    transport = sites_with(file, experiment, tmp_path)
    run_plan(plan_of(dataclasses.replace(experiment, rounds=1), tmp_path), transport, NAMES)

    def never(*_):
        raise AssertionError("embedded again")

    monkeypatch.setattr(embedding, "compute", never)
    for trainer in transport.trainers:
        trainer.close()  # as after a restart
    run_plan(plan_of(experiment, tmp_path), transport, NAMES)


def test_another_file_is_refused_in_one_sentence(experiment, file, tmp_path, caplog):
    transport = sites_with(file, experiment, tmp_path)
    write_torchscript(tmp_path / "site1" / "backbones" / "anything.pt", torch.nn.AvgPool2d(16))
    plan = plan_of(experiment, tmp_path)
    dismissed = iter([set()] * 4)
    run_plan(plan, transport, NAMES, lambda: next(dismissed, {1}))
    said = [item["what"] for item in read_status(plan.experiment.folder).dropped]
    assert said[0] == f"south {OTHER_BACKBONE} (hello)"
    wanted = f"the run wants mine.pt, whose SHA-256 begins with {plan.experiment.backbone_sha256}, and"
    assert any(record.getMessage().startswith(wanted) for record in caplog.records)


def test_the_site_is_told_no_path_of_the_coordinator(experiment, tmp_path):
    assert str(tmp_path) not in plan_of(experiment, tmp_path).for_sites.split("data_dir")[0]
    assert 'backbone = "mine.pt"' in plan_of(experiment, tmp_path).for_sites


# ------------------------------------------------------------------------------------------ the plan


def test_a_plan_names_a_file_that_lies_with_the_coordinator(tmp_path):
    write_onnx(tmp_path / "mine.onnx")
    plan = FieldPlan.from_toml(PLAN, backbones=tmp_path)
    assert plan.experiment.backbone == str(tmp_path / "mine.onnx")
    assert (plan.experiment.model, plan.experiment.image_size) == ("linear", 224)
    assert (plan.images.size, plan.images.channels) == (224, 3)
    with pytest.raises(ConfigurationError, match=r"images.backbone: 'mine.onnx' was given.*have put into"):
        FieldPlan.from_toml(PLAN, backbones=tmp_path / "elsewhere")
    for wrong in ("../mine.onnx", "/mine.onnx"):
        with pytest.raises(ConfigurationError, match=r"images\.backbone"):
            FieldPlan.from_toml(PLAN.replace("mine.onnx", wrong), backbones=tmp_path)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("mean = [0.5]", r"images.mean: \[0.5\] was given, allowed is none with a backbone"),
        ("size = 5000", "images.size|image_size"),
        ('backbone_options = "normalise=odd"', "backbone_options: normalise: 'odd' was given"),
    ],
)
def test_what_does_not_go_with_a_backbone_is_named(tmp_path, line, sentence):
    write_onnx(tmp_path / "mine.onnx")
    with pytest.raises(ConfigurationError, match=sentence):
        FieldPlan.from_toml(PLAN + line, backbones=tmp_path)


def test_a_run_goes_on_with_the_file_that_it_began_with(coordinator):
    admit(coordinator, 2)
    (coordinator.folder / "backbones").mkdir()
    file = write_onnx(coordinator.folder / "backbones" / "mine.onnx")
    plan = coordinator.keep_plan(PLAN)
    coordinator.begin(plan)
    name = plan.experiment.name
    assert coordinator.plan(name).experiment.name == name
    file.write_bytes(file.read_bytes() + b"\x72\x00")  # other metadata, which ONNX ignores
    with pytest.raises(UserError, match=r"is not the file with which run birds-.* began"):
        coordinator.plan(name)


# ------------------------------------------------------------------------------------------ the sums


def test_sums_of_sites_standardise_as_all_their_images_do(experiment):
    features = torch.randn(100, 7, generator=torch.Generator().manual_seed(0)) * 3 + 40
    features[:, 2] = 5.0  # constant
    how = standardisation_of([moments_of(part) for part in features.split([20, 33, 47])])
    found = features * how.scale + how.shift
    assert found.mean(0).abs().max() < 1e-4
    deviation = found.std(0, unbiased=False)
    assert torch.allclose(deviation[[0, 1, 3, 4, 5, 6]], torch.ones(6), atol=1e-5)
    assert deviation[2] == 0
    again = from_text(to_text(how))
    assert torch.equal(again.shift, how.shift)
    assert torch.equal(again.scale, how.scale)
    with pytest.raises(ValueError, match="two rows of finite numbers"):
        from_text(to_text(how._replace(scale=how.scale * torch.inf)))


def test_sums_of_few_images_are_left_out():
    few = moments_of(torch.ones(4, 7))
    assert (few.images, few.sums.sum(), few.squares.sum()) == (0, 0, 0)
    assert moments_of(torch.ones(5, 7)).images == 5


def test_a_run_of_tiny_sites_says_that_nothing_is_known(experiment, file, tmp_path):
    transport = sites_with(file, experiment, tmp_path)
    for trainer in transport.trainers:
        there = trainer.images.held
        trainer.images = Unchanging(held(there.images[:4], there.test_images, there.test_labels))
    with pytest.raises(RunError):
        run_plan(plan_of(dataclasses.replace(experiment, budget="1/client"), tmp_path), transport, NAMES)


@pytest.mark.parametrize(
    ("images", "sums", "squares"),
    [
        (4, torch.ones(FEATURES), torch.ones(FEATURES)),  # of so few images that they say much about each
        (9, torch.ones(FEATURES) * 4, torch.ones(FEATURES)),  # no nine numbers have these
        (9, torch.ones(FEATURES), -torch.ones(FEATURES)),
        (9, torch.ones(FEATURES) * torch.nan, torch.ones(FEATURES)),
        (9, torch.ones(2), torch.ones(2)),
        (0, torch.ones(FEATURES), torch.ones(FEATURES)),
    ],
)
def test_sums_that_no_images_have_are_refused(images, sums, squares):
    reply = Reply({"images": images}, {"sums": sums.double(), "squares": squares.double()})
    with pytest.raises(BadReplyError):
        read_moments(reply, FEATURES)
    right = Reply(
        {"images": 9}, {"sums": torch.ones(FEATURES).double(), "squares": torch.ones(FEATURES).double()}
    )
    assert isinstance(read_moments(right, FEATURES), Moments)


def test_the_laboratory_standardises_alike(experiment):
    assert load_inputs(experiment).train_inputs.norm(dim=1).allclose(torch.tensor(10.0))

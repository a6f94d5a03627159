"""Plans: the coordinator's TOML file, and the sentence for every mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedactive.data.catalog import DATASETS
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.options import options_of
from fedactive.sites.card import card_from_plain, card_to_plain
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.messages import Reply, Request
from fedactive.sites.site.trainer import Trainer
from support.loopback import Unchanging, held

OWN = """
dataset = "chest"
budget = 5
rounds = 2

[images]
classes = ["normal", "pneumonia"]
size = 64
channels = 3
mean = [0.4, 0.5, 0.6]
std = [0.2, 0.2, 0.2]

[field]
quorum = 0.5
deadline = 72
"""


def test_images_that_are_in_no_catalogue():
    plan = FieldPlan.from_toml(OWN, clients=4)
    assert plan.experiment.dataset == "chest"
    assert plan.experiment.clients == 4
    assert (plan.images.classes, plan.images.size, plan.images.channels) == (("normal", "pneumonia"), 64, 3)
    assert plan.images.mean == (0.4, 0.5, 0.6)
    assert plan.rules == Rules(quorum=0.5, deadline=72.0)
    assert FieldPlan.from_toml(OWN, clients=4) == plan


def test_reading_a_plan_adds_nothing_to_the_catalogue(tmp_path):
    before = dict(DATASETS)
    plan = FieldPlan.from_toml(OWN, clients=4)
    assert plan.experiment.name == "chest-logo-both-s1-fc936beede"  # as ever
    assert Experiment.from_values({"dataset": "chest"}, plan.images) != plan.experiment
    store = LabelStore(tmp_path / "labels.sqlite")
    images = torch.zeros((9, 3, 64, 64), dtype=torch.uint8)
    images = Unchanging(held(images, images[:0], torch.zeros(0, dtype=torch.long)))
    trainer = Trainer(tmp_path, store, plan.images.classes, images, "cpu")
    run = {"experiment": plan.experiment.to_toml(), "images": card_to_plain(plan.images)}
    run |= {"client": 0, "budget": [5], "clip": 0.0, "noise": 0.0}
    assert trainer.answer(Request("hello", "run", settings={"run": run})) == Reply({"images": 9})
    assert before == DATASETS
    with pytest.raises(ConfigurationError, match="dataset: 'chest' was given"):
        Experiment(dataset="chest")


def test_a_catalogues_dataset_needs_no_description():
    plan = FieldPlan.from_toml('dataset = "digits"\nrounds = 2')
    assert plan.images is DATASETS["digits"]
    assert plan.rules == Rules()


def test_a_site_gets_the_same_card():
    for name in ("digits", "cifar10"):
        card = card_from_plain(card_to_plain(DATASETS[name]))
        assert card_to_plain(card) == card_to_plain(DATASETS[name])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (('dataset = "chest"', 'dataset = "digits"'), "dataset"),
        (('dataset = "chest"', ""), "dataset"),
        (('dataset = "chest"', 'dataset = "chest x-ray"'), "dataset"),  # a site would refuse such a folder
        (('dataset = "chest"', 'dataset = "../chest"'), "dataset"),
        (('dataset = "chest"', f'dataset = "{"x" * 61}"'), "dataset"),
        (('["normal", "pneumonia"]', '["normal"]'), "images.classes"),
        (('["normal", "pneumonia"]', '["normal", "normal"]'), "images.classes"),
        (("budget = 5", 'budget = 5\nstrategy = "fedtypiclust"'), "strategy"),  # sites choose by themselves
        (("budget = 5", 'budget = 5\nfirst = "fedtypiclust"'), "first"),
        (("size = 64", "size = 1"), "images.size"),
        (("size = 64", "size = 64.5"), "images.size"),
        (("channels = 3", "channels = 2"), "images.channels"),
        (("[0.4, 0.5, 0.6]", "[0.4]"), "images.mean"),
        (("[0.2, 0.2, 0.2]", "[0.2, 0.2, 0.0]"), "images.std"),
        (("std =", "sdt ="), "images"),
        (("quorum = 0.5", "quorum = 2"), "quorum"),
        (("quorum = 0.5", "qorum = 0.5"), "setting"),
        (("deadline = 72", 'deadline = "soon"'), "deadline"),
        (("[field]", "[fild]"), "setting"),
        (("rounds = 2", "rounds = 99"), "rounds"),
    ],
    ids=str,
)
def test_a_mistake_is_named(change, field):
    with pytest.raises(ConfigurationError) as error:
        FieldPlan.from_toml(OWN.replace(*change))
    assert error.value.field == field


@pytest.mark.parametrize(
    "setting", ['backbone = "efficientnet_lite0"', "image_size = 64", 'weights = "pretrained"'], ids=str
)
def test_what_sites_cannot_do_yet_is_refused(setting):
    model = 'model = "efficientnet_lite0"\n' if "weights" in setting else ""
    field, _, value = setting.replace('"', "'").partition(" = ")
    with pytest.raises(ConfigurationError, match=f"{field}: {value} was given, allowed is .* between sites"):
        FieldPlan.from_toml(f'dataset = "digits"\n{model}{setting}')


def test_the_documentation_names_every_rule_with_its_default():
    text = (Path(__file__).parents[3] / "docs" / "FIELD.md").read_text()
    for item in options_of(Rules):
        assert (
            f"| `{item.name}` | {item.default:g} |".replace(
                "| 1 |", "| 1.0 |" if item.kind is float else "| 1 |"
            )
            in text
        )

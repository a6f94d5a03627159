"""Clipped and noised updates."""

from __future__ import annotations

import dataclasses
import math
import os

import numpy as np
import pytest
import scipy.stats
import torch
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import assume, given
from hypothesis import strategies as st

from fedactive.data.catalog import DATASETS
from fedactive.errors import ConfigurationError
from fedactive.models import ModelSpec
from fedactive.sites.card import card_to_plain
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.messages import DIVERGED, NOT_FINITE, OTHER_VERSION, PROBLEMS, VERSION, Reply, Request
from fedactive.sites.privacy import Cover, NotFiniteError, clip_and_noise, epsilon, rho_of
from fedactive.sites.site.trainer import Trainer
from support.loopback import loopback

ORIGIN = {"w": torch.ones(100, 100), "bn.running_var": torch.ones(4), "bn.batches": torch.tensor(3)}


def moved(by):
    return ORIGIN | {"w": ORIGIN["w"] + by, "bn.batches": torch.tensor(4)}


@pytest.mark.parametrize(("by", "expected"), [(0.05, 2.0), (0.01, 1.0), (0.0, 0.0)])
def test_an_update_is_as_long_as_it_may_be(by, expected):
    sent = clip_and_noise(moved(by), ORIGIN, Cover(clip=2.0))
    step = sent["w"] - ORIGIN["w"]
    assert step.norm().item() == pytest.approx(expected, rel=1e-4)
    assert sent["bn.batches"] == 3  # cannot be covered, so it is sent back as it came


def test_the_noise_has_its_size_and_is_new_each_time():
    cover = Cover(clip=2.0, noise=0.5)
    first, second = (clip_and_noise(moved(0.0), ORIGIN, cover) for _ in range(2))
    assert (first["w"] - ORIGIN["w"]).std().item() == pytest.approx(1.0, rel=0.05)
    assert not (first["w"] == second["w"]).any()
    assert not torch.equal(first["bn.running_var"], ORIGIN["bn.running_var"])
    large = clip_and_noise(moved(0.0), ORIGIN, Cover(clip=100.0, noise=1.0))
    assert (large["bn.running_var"] >= 0).all()


def test_a_small_variance_is_sent_as_it_is():
    small = ORIGIN | {"bn.running_var": torch.tensor([0.25, 0.0, 2.0, 1.0])}
    sent = clip_and_noise(small, ORIGIN, Cover(clip=100.0))
    assert torch.equal(sent["bn.running_var"], small["bn.running_var"])


def test_each_number_of_the_noise_has_random_bits_of_its_own(monkeypatch):
    """So there is no seed that a coordinator could try out."""
    count = 10_000
    bits = np.random.default_rng(1).bytes(8 * count)
    origin = {"w": torch.zeros(count, dtype=torch.float64)}

    def noise(bits):
        monkeypatch.setattr(os, "urandom", lambda size: bits[:size])
        return clip_and_noise(origin, origin, Cover(clip=1.0, noise=1.0))["w"]

    first, other = noise(bits), noise(bits[:-8] + bits[:8])
    assert torch.equal(first[:-1], other[:-1])
    assert first[-1] != other[-1] == other[0]
    assert scipy.stats.kstest(first, "norm").pvalue > 0.01
    ends = noise((bytes(8) + b"\xff" * 8) * count)
    assert ends[0] == -ends[1]
    assert -9 < ends[0] < -8


NUMBERS = [0.0, 1.0, -1.0, 1e-45, 1e-38, 3.0, 1e19, 3.4e38, -3.4e38, math.inf, -math.inf, math.nan]


@given(
    st.lists(st.tuples(*[st.sampled_from(NUMBERS) | st.floats(width=32)] * 2), min_size=1, max_size=8),
    st.sampled_from([torch.float32, torch.float64]),
    st.floats(1e-3, 1e3),
    st.sampled_from([0.0, 1.0]),
)
def test_what_is_sent_is_finite_and_clipped_or_nothing_is_sent(numbers, dtype, clip, noise):
    origin, weights = ({"w": torch.tensor(column, dtype=dtype)} for column in zip(*numbers, strict=True))
    try:
        sent = clip_and_noise(weights, origin, Cover(clip, noise))["w"]
    except NotFiniteError:
        assume(noise == 0)  # else the noise may have made a large number infinite
        assert not torch.isfinite(torch.cat([weights["w"], origin["w"]])).all()
        return
    assert torch.isfinite(sent).all()
    if noise == 0:
        # Half a unit in the last place of each: weights are rounded when they are sent.
        rounding = torch.finfo(dtype).eps * sent.double().abs().maximum(origin["w"].double().abs()).norm()
        assert (sent.double() - origin["w"].double()).norm() <= clip * (1 + 1e-6) + rounding


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_so_far_apart_that_their_distance_is_infinite(dtype):
    most = torch.finfo(dtype).max
    origin, weights = ({"w": torch.full((3,), sign * most, dtype=dtype)} for sign in (-1, 1))
    if dtype == torch.float64:
        with pytest.raises(NotFiniteError, match="no finite norm"):
            clip_and_noise(weights, origin, Cover(clip=1.0))
    else:  # computed in double precision, it is finite
        assert torch.equal(clip_and_noise(weights, origin, Cover(clip=1.0))["w"], origin["w"])


def test_what_the_noise_makes_infinite_is_not_sent():
    origin = {"w": torch.full((100,), torch.finfo(torch.float32).max)}
    with pytest.raises(NotFiniteError, match="not finite"):
        clip_and_noise(origin, origin, Cover(clip=1e38, noise=1.0))


@pytest.mark.parametrize("covers", [[(10.0, 1)], [(2.0, 1)], [(50.0, 100)], [(5.0, 3), (20.0, 40)]])
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_epsilon_is_that_of_an_independent_accountant(covers, delta):
    """Two datasets are 2C apart, and the noise is z·C: so the accountant's multiplier is z/2."""
    rho, together = 0.0, None
    for z, updates in covers:
        rho += updates * rho_of(Cover(1.0, z))
        one = privacy_loss_distribution.from_gaussian_mechanism(z / 2).self_compose(updates)
        together = one.compose(together) if together else one
    assert epsilon(rho, delta) == pytest.approx(together.get_epsilon_for_delta(delta), rel=2e-3)


def test_epsilon_at_the_ends():
    assert epsilon(rho_of(Cover())) == epsilon(rho_of(Cover(clip=1.0))) == math.inf
    assert epsilon(rho_of(Cover(noise=1.0))) == math.inf  # what is not clipped has no noise either
    assert epsilon(0.0) == 0.0
    assert epsilon(1e-14) == 0.0  # so much noise that delta alone covers it
    assert epsilon(1e-4) < epsilon(1.0) < epsilon(1e4) < epsilon(1e8) < math.inf


def test_a_run_with_noise(small, tmp_path, monkeypatch, caplog):
    """The same question gets the same noise; another question, and another site, get another."""
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)
    caplog.set_level("INFO")
    experiment = small(rounds=1, fl_rounds=2, runs_dir=tmp_path / "coordinator")
    transport = loopback(experiment, tmp_path)
    cover = Cover(clip=1.0, noise=0.01)
    plan = FieldPlan(experiment, Rules(**dataclasses.asdict(cover)))
    replies = []

    def ask_twice(k, request, reply):
        if request.kind == "train" and k == 0:
            moved = {name: w + 0.5 if w.is_floating_point() else w for name, w in request.weights.items()}
            other = dataclasses.replace(request, weights=moved)
            questions = [request, other, request] if request.fl_round else [request]
            replies.append([reply, *map(transport.trainers[0].answer, questions)])
        return reply

    transport.tamper = ask_twice
    run_plan(plan, transport, ["a", "b", "c"])
    first = replies[0]
    assert torch.equal(first[0].weights["head.weight"], first[1].weights["head.weight"])
    reply, again, other, third = (r.weights["head.weight"] for r in replies[1])
    assert torch.equal(reply, again)
    assert not torch.equal(again, third)  # after another question the noise is fresh, and counted
    assert other.shape == reply.shape
    assert transport.trainers[0].site_run.last_training()["updates"] == 4
    assert f"4 updates sent: epsilon {epsilon(4 * rho_of(cover)):.4g} at delta 1e-05" in caplog.text
    assert "neither clipped nor noised" not in caplog.text


def test_what_was_sent_in_the_clear_stays_known(small, tmp_path, monkeypatch, caplog):
    """A cover that changes during a run, even between two answers to one question."""
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)
    caplog.set_level("INFO")
    experiment = small(rounds=1, fl_rounds=1, runs_dir=tmp_path / "coordinator")
    transport = loopback(experiment, tmp_path)
    questions = []

    def remember(k, request, reply):
        if (k, request.kind) == (0, "train"):
            questions.append(request)
        return reply

    transport.tamper = remember
    run_plan(FieldPlan(experiment, Rules()), transport, ["a", "b", "c"])
    assert "updates are sent as they are, neither clipped nor noised" in caplog.text

    def ask(**cover):
        (question,) = questions
        settings = question.settings | {"run": question.settings["run"] | cover}
        return transport.trainers[0].answer(dataclasses.replace(question, settings=settings)).weights

    first, other = ask(clip=1.0, noise=50.0)["head.bias"], ask(clip=1.0, noise=25.0)["head.bias"]
    model = questions[0].weights["head.bias"]
    # With the same draws the noise would have halved, and the two answers together would have none.
    assert not torch.allclose(first - model, 2 * (other - model), atol=3)
    assert "2 updates sent: epsilon inf at delta 1e-05" in caplog.text
    assert "3 updates sent: epsilon inf at delta 1e-05" in caplog.text


def site_asked_to_train(small, tmp_path):
    """A site with labels, and a function that asks it about this model, changed in some ways."""
    experiment = small(strategy="random", model="cnn4")
    transport = loopback(experiment, tmp_path)
    trainer = transport.trainers[0]
    card = DATASETS["digits"]
    spec = ModelSpec(experiment.model, (card.channels, card.size, card.size), len(card.classes))
    weights = spec.initial_weights(torch.Generator().manual_seed(0))
    run = {"experiment": experiment.to_toml(), "images": card_to_plain(card), "client": 0, "budget": [20]}
    run |= {"clip": 1.0, "noise": 50.0}
    trainer.answer(Request("query", "run", 1, settings={"run": run, "deadline": 0.0, "overlap": 1}))
    transport.annotators[0].work()

    def ask(trainer, *, settings=None, **changes):
        question = Request("train", "run", 1, 0, {"run": run | (settings or {})}, weights)
        return trainer.answer(dataclasses.replace(question, **changes))

    ask.model = weights
    return trainer, ask


def distance(first, second):
    return math.sqrt(
        sum((first.weights[name].double() - w.double()).square().sum() for name, w in second.weights.items())
    )


def test_a_site_that_was_started_again_sends_the_same_noise_again(small, tmp_path, caplog):
    caplog.set_level("INFO")
    trainer, ask = site_asked_to_train(small, tmp_path)
    first = ask(trainer)
    anew = Trainer(trainer.folder, trainer.store, trainer.classes, trainer.images, "cpu")
    again = ask(anew)
    assert first.problem == again.problem == 0
    assert first.values == again.values
    assert distance(first, again) == 0
    assert "1 updates sent: " in caplog.text
    assert "2 updates sent: " not in caplog.text


@pytest.mark.parametrize(("name", "bad"), [("running_mean", math.nan), ("head.bias", -math.inf)])
@pytest.mark.parametrize("kind", ["train", "query", "evaluate"])
def test_a_site_refuses_a_model_that_is_not_finite(small, tmp_path, caplog, kind, name, bad):
    """One NaN in a running mean would end in the update, which could not be clipped."""
    caplog.set_level("INFO")
    trainer, ask = site_asked_to_train(small, tmp_path)
    spoilt = ask.model | {key: torch.full_like(w, bad) for key, w in ask.model.items() if key.endswith(name)}
    assert ask(trainer, weights=spoilt, kind=kind) == Reply(problem=1 + PROBLEMS.index(NOT_FINITE))
    assert trainer.site_run.last_training()["updates"] == 0
    assert "updates sent" not in caplog.text


def test_a_site_refuses_a_state_that_is_not_finite(small, tmp_path):
    trainer, ask = site_asked_to_train(small, tmp_path)
    state = {"control": {"head.bias": torch.tensor([1.0, math.nan])}}
    assert ask(trainer, state=state) == Reply(problem=1 + PROBLEMS.index(NOT_FINITE))


@pytest.mark.parametrize("clip", [1.0, 0.0])
def test_what_diverged_is_neither_sent_nor_booked(small, tmp_path, caplog, clip):
    caplog.set_level("INFO")
    trainer, ask = site_asked_to_train(small, tmp_path)
    huge = {name: w * 1e30 if name.endswith("weight") else w for name, w in ask.model.items()}
    assert all(torch.isfinite(w).all() for w in huge.values())
    assert ask(trainer, weights=huge, settings={"clip": clip, "noise": clip}) == Reply(
        problem=1 + PROBLEMS.index(DIVERGED)
    )
    assert trainer.site_run.last_training()["updates"] == 0
    assert "updates sent" not in caplog.text
    assert ask(trainer).problem == 0
    assert "1 updates sent: " in caplog.text


def with_other(**changes):
    return lambda experiment: {
        "settings": {"experiment": dataclasses.replace(experiment, **changes).to_toml()}
    }


OTHER_QUESTIONS = {
    "learning rate": with_other(lr=1e-8),  # whose answer is hardly more than noise
    "epochs": with_other(local_epochs=2),
    "seed": with_other(seed=2),
    "client": lambda _: {"settings": {"client": 1}},
    "cover": lambda _: {"settings": {"clip": 2.0}},
    "state of the algorithm": lambda _: {"state": {"control": {"head.bias": torch.ones(10)}}},
    "FL round": lambda _: {"fl_round": 1},
}


def test_a_site_sends_no_variates_beside_covered_weights(small, tmp_path):
    trainer, ask = site_asked_to_train(small, tmp_path)
    scaffold = with_other(algorithm="scaffold")(small(strategy="random", model="cnn4"))
    assert ask(trainer, **scaffold) == Reply({"version": VERSION}, problem=1 + PROBLEMS.index(OTHER_VERSION))


@pytest.mark.parametrize("other", OTHER_QUESTIONS.values(), ids=OTHER_QUESTIONS)
def test_another_question_gets_other_noise_which_counts(small, tmp_path, caplog, other):
    """Or the difference of the two answers would have none."""
    caplog.set_level("INFO")
    trainer, ask = site_asked_to_train(small, tmp_path)
    first, second = ask(trainer), ask(trainer, **other(small(strategy="random", model="cnn4")))
    assert first.problem == second.problem == 0
    assert distance(first, second) > 1000
    assert "2 updates sent: " in caplog.text


@pytest.mark.parametrize(
    ("text", "name"), [("noise = 1", "noise"), ("clip = -1", "clip"), ("clip = 1", "clip")], ids=str
)
def test_what_cannot_be_covered_is_refused(text, name):
    algorithm = "scaffold" if text == "clip = 1" else "fedavg"
    with pytest.raises(ConfigurationError) as error:
        FieldPlan.from_toml(f'dataset = "digits"\nalgorithm = "{algorithm}"\n[field]\n{text}')
    assert error.value.field == name

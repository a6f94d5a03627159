"""Which updates are dropped, for every model, and that nothing which a site chose to say is shown with it."""

from __future__ import annotations

import logging

import pytest
import torch

from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, Update
from fedactive.models import MODELS, ModelSpec
from fedactive.record.schema import measure
from fedactive.sites.coordinator.checks import BadReplyError, add_up, check_update, read_evaluation
from fedactive.sites.coordinator.server_app import LONGEST_ENTRY, PlainFormatter
from fedactive.sites.flower.wire import decode_reply, encode_reply
from fedactive.sites.messages import Reply

ABSURD = {
    "running_mean": (3e38, "sent statistics .* away from the model's"),
    "running_var": (3e38, "sent statistics .* away from the model's"),
    "num_batches_tracked": (2**50, "sent an impossible count"),
}


def weights_of(model):
    return ModelSpec(model, (1, 32, 32), 10).initial_weights(torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("statistic", "value", "reason"), [(k, *v) for k, v in ABSURD.items()], ids=list(ABSURD)
)
@pytest.mark.parametrize("model", sorted(MODELS))
def test_absurd_statistics_are_dropped(model, statistic, value, reason):
    weights = weights_of(model)
    name = next(name for name in weights if name.endswith(statistic))
    for absurd in (value, -value):
        spoiled = weights | {name: torch.full_like(weights[name], absurd)}
        with pytest.raises(BadReplyError, match="variance" if absurd < 0 and "var" in name else reason):
            check_update(Reply({"samples": 5}, spoiled), Server(weights), Update(1, weights), largest_step=10)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_statistics_may_follow_images_of_any_scale(model):
    """Images whose pixels reach 100 instead of 1, and a rule about steps that is strict."""
    weights = weights_of(model)
    statistics = {name: w + 100 for name, w in weights.items() if name.endswith("running_mean")}
    statistics |= {name: w * 100**2 for name, w in weights.items() if name.endswith("running_var")}
    statistics |= {name: w + 500 for name, w in weights.items() if name.endswith("num_batches_tracked")}
    assert len(statistics) >= 12
    check_update(
        Reply({"samples": 5}, weights | statistics), Server(weights), Update(1, weights), largest_step=0.01
    )


TO_THE_TERMINAL = "\x1b]0;title\x07\x1b[2J\x9b31m\n12:00:00 south was dismissed"


@pytest.mark.parametrize("name", [TO_THE_TERMINAL, "long" * 10_000], ids=["escape sequences", "long"])
@pytest.mark.parametrize("missing", [set(), {"head.bias"}])
def test_a_reason_names_nothing_that_a_site_made_up(name, missing):
    weights = weights_of("cnn4")
    sent = {n: w for n, w in weights.items() if n not in missing} | {name: torch.zeros(1)}
    reply = decode_reply(encode_reply(Reply({"samples": 5}, sent)))
    with pytest.raises(BadReplyError) as reason:
        check_update(reply, Server(weights), Update(1, weights), largest_step=10)
    problem = "head.bias missing" if missing else "1 more than it has"
    assert str(reason.value) == f"sent weights that do not fit the model: {problem}"


def test_the_log_of_a_run_is_plain_text_whatever_a_site_says():
    said = logging.makeLogRecord({"msg": "no reply: %s", "args": (TO_THE_TERMINAL + "x" * 10**6,)})
    first, second = PlainFormatter("11:59:59 %(message)s").format(said).split("\n")
    assert first == "11:59:59 no reply: \\x1b]0;title\\x07\\x1b[2J\\x9b31m"
    assert second.startswith("    12:00:00 south was dismissed")
    assert len(second) < LONGEST_ENTRY


SOUND = {"tested": [3, 1], "right": [2, 0], "predicted": [2, 2], "loss": 0.5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"tested": [3]},
        {"right": [4, 0]},
        {"right": [-1, 0]},
        {"predicted": None},
        {"predicted": [1, 3]},  # two of class 0 were right
        {"predicted": [2, 3]},  # more than there are
        {"predicted": [2.0, 2.0]},
        {"loss": -1.0},
        {"loss": float("inf")},
    ],
    ids=str,
)
def test_counts_that_cannot_be_true_are_dropped(wrong):
    assert read_evaluation(Reply(SOUND), 2) == Evaluation(**SOUND)
    with pytest.raises(BadReplyError):
        read_evaluation(Reply(SOUND | wrong), 2)


def test_results_of_sites_are_added_up():
    other = Evaluation(tested=[0, 4], right=[0, 4], predicted=[0, 4], loss=0.25)
    whole = add_up([Evaluation(**SOUND), other], 2)
    assert whole == Evaluation([3, 5], [2, 4], [2, 6], (4 * 0.5 + 4 * 0.25) / 8)
    assert measure(whole)["macro_f1"] == pytest.approx((4 / 5 + 8 / 11) / 2)
    assert add_up([], 2).tested == [0, 0]

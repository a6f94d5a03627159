"""Which updates are dropped, for every model, and that nothing which a site chose to say is shown with it."""

from __future__ import annotations

import logging
import math
from datetime import datetime

import pytest
import torch

from fedactive import __version__
from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, Update
from fedactive.models import ModelSpec
from fedactive.record.schema import measure
from fedactive.sites.coordinator.checks import (
    BadReplyError,
    add_up,
    check_update,
    read_confusion,
    read_evaluation,
    read_moments,
)
from fedactive.sites.coordinator.correspondence import explain
from fedactive.sites.flower.wire import decode_reply, encode_reply
from fedactive.sites.log_lines import LONGEST_ENTRY, PlainFormatter
from fedactive.sites.messages import FAILED, OTHER_VERSION, PROBLEMS, VERSION, Reply, failure

WITH_STATISTICS = ("cnn4", "mobilenet", "resnet18")  # of BatchNorm
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
@pytest.mark.parametrize("model", WITH_STATISTICS)
def test_absurd_statistics_are_dropped(model, statistic, value, reason):
    weights = weights_of(model)
    name = next(name for name in weights if name.endswith(statistic))
    for absurd in (value, -value):
        spoiled = weights | {name: torch.full_like(weights[name], absurd)}
        with pytest.raises(BadReplyError, match="variance" if absurd < 0 and "var" in name else reason):
            check_update(Reply({"samples": 5}, spoiled), Server(weights), Update(1, weights), largest_step=10)


@pytest.mark.parametrize("model", WITH_STATISTICS)
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


# A small model: norms of 5 and 2. Its algorithm sends a group of tensors beside the weights.
WEIGHTS = {
    "head.weight": torch.tensor([3.0, 4.0]),
    "norm.running_mean": torch.tensor([0.0, 0.0]),
    "norm.running_var": torch.tensor([4.0, 0.0]),
    "norm.num_batches_tracked": torch.tensor(7),
}
FORM = Update(1, WEIGHTS, {"control": {"head.weight": torch.zeros(2)}})


def check(samples=5, state=None, largest_step=2.0, **changes):
    """Check an update with these changes of weights; a dot in a name is written as two underscores."""
    sent = WEIGHTS | {name.replace("__", "."): value for name, value in changes.items()}
    sent = {name: value for name, value in sent.items() if value is not None}
    reply = Reply(
        {} if samples is None else {"samples": samples}, sent, FORM.state if state is None else state
    )
    check_update(reply, Server(WEIGHTS), FORM, largest_step)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"samples": 1},
        {"samples": 2**40 - 1},
        {"head__weight": torch.tensor([-7.0, 4.0])},  # twice the norm away, which is just allowed
        {"norm__running_var": torch.tensor([0.0, 0.0])},
        {"norm__running_mean": torch.tensor([2000.0, 0.0])},
        {"norm__num_batches_tracked": torch.tensor(0)},
        {"norm__num_batches_tracked": torch.tensor(2**40 - 1)},
    ],
    ids=str,
)
def test_what_is_possible_is_kept(changes):
    check(**changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"samples": 0}, "sent an impossible number of samples"),
        ({"samples": 2**40}, "sent an impossible number of samples"),
        ({"samples": True}, "sent an impossible number of samples"),
        ({"samples": 5.0}, "sent an impossible number of samples"),
        ({"samples": None}, "sent an impossible number of samples"),
        ({"head__weight": None}, "sent weights that do not fit the model: head.weight missing"),
        ({"head__weight": torch.zeros(3)}, "sent weights that do not fit the model: head.weight"),
        ({"head__weight": torch.zeros(2).half()}, "sent weights that do not fit the model: head.weight"),
        ({"head__weight": torch.tensor([3.0, torch.inf])}, "sent weights that are not finite: head.weight"),
        (
            {"head__weight": torch.tensor([-7.1, 4.0])},
            "sent weights 10.1 away from the model's, whose norm is 5",
        ),
        ({"norm__running_var": torch.tensor([4.0, -1e-9])}, "sent a negative variance: norm.running_var"),
        (
            {"norm__running_mean": torch.tensor([2001.0, 0.0])},
            "sent statistics 2e+03 away from the model's, whose norm is 2",
        ),
        (
            {"norm__num_batches_tracked": torch.tensor(-1)},
            "sent an impossible count: norm.num_batches_tracked",
        ),
        (
            {"norm__num_batches_tracked": torch.tensor(2**40)},
            "sent an impossible count: norm.num_batches_tracked",
        ),
        ({"state": {}}, "sent other groups of tensors than the algorithm does"),
        ({"state": {"control": {}}}, "sent control tensors that do not fit the model: head.weight missing"),
        (
            {"state": {"control": {"head.weight": torch.tensor([torch.nan, 0.0])}}},
            "sent control tensors that are not finite: head.weight",
        ),
    ],
    ids=str,
)
def test_what_is_impossible_is_dropped_with_a_reason(changes, reason):
    with pytest.raises(BadReplyError) as dropped:
        check(**changes)
    assert str(dropped.value) == reason


def test_the_steps_of_a_model_near_zero_are_measured_by_one():
    zero = {"head.weight": torch.zeros(2)}
    for length in (1.99, 2.01):
        reply = Reply({"samples": 5}, {"head.weight": torch.tensor([length, 0.0])})
        if length > 2:
            with pytest.raises(BadReplyError, match=r"sent weights 2\.01 away"):
                check_update(reply, Server(zero), Update(1, zero), largest_step=2)
        else:
            check_update(reply, Server(zero), Update(1, zero), largest_step=2)


def test_of_many_missing_tensors_three_are_named():
    wanted = {name: torch.zeros(1) for name in "dbcae"}
    with pytest.raises(BadReplyError) as dropped:
        check_update(Reply({"samples": 5}), Server(wanted), Update(1, wanted), largest_step=2)
    assert str(dropped.value) == "sent weights that do not fit the model: a, b, c missing"


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
    first, second = PlainFormatter().format(said).split("\n")
    time, _, rest = first.partition(" ")
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert rest == "no reply: \\x1b]0;title\\x07\\x1b[2J\\x9b31m"
    assert second.startswith("    12:00:00 south was dismissed")
    assert len(second) < LONGEST_ENTRY


SOUND = {"tested": [3, 1], "right": [2, 0], "predicted": [2, 2], "loss": 0.5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"tested": [3]},
        {"right": [4, 0]},
        {"right": [0, 2]},  # of one in class 1
        {"right": [-1, 0]},
        {"predicted": None},
        {"predicted": [1, 3]},  # two of class 0 were right
        {"predicted": [2, 3]},  # more than there are
        {"predicted": [2.0, 2.0]},
        {"loss": -1.0},
        {"loss": float("inf")},
        {"loss": "0.5"},
        {"tested": [2**40, 1], "predicted": [2**40 - 1, 2]},
        {"tested": [3, 1, 0]},
    ],
    ids=str,
)
def test_counts_that_cannot_be_true_are_dropped(wrong):
    assert read_evaluation(Reply(SOUND), 2) == Evaluation(**SOUND)
    with pytest.raises(BadReplyError):
        read_evaluation(Reply(SOUND | wrong), 2)


@pytest.mark.parametrize(
    "possible",
    [{"loss": 0.0}, {"loss": 1}, {"right": [2, 1]}, {"tested": [2**40 - 1, 1], "predicted": [2**40 - 2, 2]}],
    ids=str,
)
def test_counts_that_can_be_true_are_kept(possible):
    assert read_evaluation(Reply(SOUND | possible), 2) == Evaluation(**(SOUND | possible))


def test_results_of_sites_are_added_up():
    other = Evaluation(tested=[0, 4], right=[0, 4], predicted=[0, 4], loss=0.25)
    whole = add_up([Evaluation(**SOUND), other], 2)
    assert whole == Evaluation([3, 5], [2, 4], [2, 6], (4 * 0.5 + 4 * 0.25) / 8)
    assert measure(whole)["macro_f1"] == pytest.approx((4 / 5 + 8 / 11) / 2)
    nothing = add_up([], 2)
    assert (nothing.tested, nothing.right, nothing.predicted) == ([0, 0], [0, 0], [0, 0])
    assert math.isnan(nothing.loss)


CONFUSED = Evaluation([3, 1], [2, 1], [2, 2], 0.5)  # one of the first class was taken for the second


@pytest.mark.parametrize(
    "matrix",
    [
        [2, 1, 1, 0],  # rows add up, columns do not
        [2, 1, 0, 1, 0],
        [3, 0, 0, 1],  # other right ones
        [1, 2, 1, 0],
        [2, 1, 0],
        [2, 1, 0, -1],
        [2.0, 1, 0, 1],
        "2101",
    ],
    ids=str,
)
def test_a_confusion_matrix_must_agree_with_the_other_counts(matrix):
    assert read_confusion(Reply({"confusion": [2, 1, 0, 1]}), CONFUSED) == [2, 1, 0, 1]
    assert read_confusion(Reply(), CONFUSED) == []  # of many classes, or an earlier version
    with pytest.raises(BadReplyError):
        read_confusion(Reply({"confusion": matrix}), CONFUSED)


def test_a_confusion_matrix_whose_columns_alone_contradict():
    """Predictions of another model: rows and right ones are those of this one."""
    other = Evaluation([3, 1], [2, 1], [3, 1], 0.5)
    with pytest.raises(BadReplyError, match="contradict"):
        read_confusion(Reply({"confusion": [2, 1, 0, 1]}), other)


@pytest.mark.parametrize("counted", [0, 5])
def test_sums_of_features_that_images_can_have_are_kept(counted):
    """Those of five times (1, -2), or of none."""
    sums, squares = ([counted * x for x in values] for values in ((1.0, -2.0), (1.0, 4.0)))
    double = {"sums": torch.tensor(sums).double(), "squares": torch.tensor(squares).double()}
    read = read_moments(Reply({"images": counted}, double), 2)
    assert (read.images, read.sums.tolist(), read.squares.tolist()) == (counted, sums, squares)


@pytest.mark.parametrize(
    ("counted", "sums", "squares", "reason"),
    [
        (1, [1.0, 2.0], [1.0, 4.0], "sums over 1 images"),
        (4, [4.0, 8.0], [4.0, 16.0], "sums over 4 images"),
        (5, [5.0], [5.0], "sums of features"),
        (5, [5.0, 10.1], [5.0, 20.0], "that no images have"),  # a larger mean than its squares allow
        (5, [5.0, 0.0], [5.0, -1.0], "that no images have"),
        (0, [0.0, 0.0], [1.0, -1.0], "that no images have"),
    ],
)
def test_sums_of_features_that_no_images_have_are_refused(counted, sums, squares, reason):
    double = {"sums": torch.tensor(sums).double(), "squares": torch.tensor(squares).double()}
    with pytest.raises(BadReplyError, match=reason):
        read_moments(Reply({"images": counted}, double), 2)


def test_versions_that_do_not_understand_each_other_are_named():
    problem = 1 + PROBLEMS.index(OTHER_VERSION)
    said = explain(Reply({"version": [9, 8, 7]}, problem=problem))
    assert (
        said == f"has fedactive 9.8.7 and the coordinator {__version__}: install the same; it {OTHER_VERSION}"
    )
    assert explain(Reply({"version": VERSION}, problem=problem)) == OTHER_VERSION
    for nonsense in ([], [1] * 9, 3, [math.nan] * 3):
        assert explain(Reply({"version": nonsense}, problem=problem)) == OTHER_VERSION
    assert "is a newer version" in explain(Reply(problem=99))
    assert explain(failure()) == FAILED
    install = f"{__version__}: install the same; it {FAILED}"
    assert (
        explain(Reply(problem=failure().problem))
        == f"has an earlier fedactive than the coordinator's {install}"
    )

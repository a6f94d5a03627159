"""Check what a site sent before it is used. A bad reply is dropped with a reason, whoever sent it and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import gt
from typing import TypeGuard

import torch

from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, Update
from fedactive.federated.weights import Weights
from fedactive.sites.messages import Reply, Value
from fedactive.sites.moments import FEWEST, Moments

LARGEST = 2**40  # of any count
# How far BatchNorm's statistics may move, in multiples of their norm. They follow the images: if the pixels
# are scaled oddly, those of a fresh model move far while its weights hardly move.
LARGEST_SHIFT = 1000


class BadReplyError(Exception):
    """Why a reply is dropped, in words that follow the site's name."""


def check_update(reply: Reply, server: Server, form: Update, largest_step: float) -> None:
    """BadReplyError unless the update has the form that the algorithm sends, is finite and a sane step."""
    read_whole_number(reply, "samples", low=1)
    check_form("weights", reply.weights, form.weights)
    check_buffers(reply.weights)
    if reply.state.keys() != form.state.keys():
        raise BadReplyError("sent other groups of tensors than the algorithm does")
    for group, tensors in form.state.items():
        check_form(f"{group} tensors", reply.state[group], tensors)
    check_step("weights", parameters(reply.weights), parameters(server.weights), largest_step)
    check_step("statistics", statistics(reply.weights), statistics(server.weights), LARGEST_SHIFT)


def check_effect(server: Server, after: Server, largest_step: float) -> None:
    """BadReplyError if the model, aggregated from an update and one that stands still, goes too far.

    Only the algorithm knows what its own tensors are for: FedNova divides by one of them.
    """
    for name, value in after.weights.items():
        if not torch.isfinite(value).all():
            raise BadReplyError(f"sent tensors that make the model infinite: {name}")
    check_step(
        "tensors that move the model", parameters(after.weights), parameters(server.weights), largest_step
    )


def check_step(what: str, given: Weights, before: Weights, largest: float) -> None:
    step, scale = distance(given, before), distance(before, None)
    if step > largest * max(scale, 1.0):
        raise BadReplyError(f"sent {what} {step:.3g} away from the model's, whose norm is {scale:.3g}")


def check_form(what: str, given: Weights, wanted: Weights) -> None:
    """Compare names, shapes and types. Reasons never quote a site's own names, which are unchecked."""
    if missing := sorted(wanted.keys() - given.keys()):
        raise BadReplyError(f"sent {what} that do not fit the model: {', '.join(missing[:3])} missing")
    if extra := len(given.keys() - wanted.keys()):
        raise BadReplyError(f"sent {what} that do not fit the model: {extra} more than it has")
    for name, value in given.items():
        if value.shape != wanted[name].shape or value.dtype != wanted[name].dtype:
            raise BadReplyError(f"sent {what} that do not fit the model: {name}")
        if not torch.isfinite(value).all():
            raise BadReplyError(f"sent {what} that are not finite: {name}")


def check_buffers(weights: Weights) -> None:
    """BadReplyError for variances and counts that no training can lead to."""
    for name, value in weights.items():
        if name.endswith("running_var") and (value < 0).any():
            raise BadReplyError(f"sent a negative variance: {name}")
        if not value.is_floating_point() and not ((value >= 0) & (value < LARGEST)).all():
            raise BadReplyError(f"sent an impossible count: {name}")


def parameters(weights: Weights) -> Weights:
    return {name: w for name, w in weights.items() if w.is_floating_point() and "running_" not in name}


def statistics(weights: Weights) -> Weights:
    """BatchNorm's means, and its variances as standard deviations, which are of the same order."""
    found = {name: w for name, w in weights.items() if "running_" in name}
    return {name: w.sqrt() if name.endswith("running_var") else w for name, w in found.items()}


def distance(weights: Weights, origin: Weights | None) -> float:
    """‖Θ - Θ_0‖ in double precision; Θ_0 = 0 if there is none."""
    squares = (
        (value.double() - (origin[name].double() if origin else 0.0)).square().sum().item()
        for name, value in weights.items()
    )
    return math.sqrt(sum(squares))


def read_whole_number(reply: Reply, name: str, low: int = 0) -> int:
    value = reply.values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < LARGEST:
        raise BadReplyError(f"sent an impossible number of {name}")
    return value


def read_moments(reply: Reply, features: int) -> Moments:
    """Read what the features of a site's images add up to; BadReplyError for sums that no images have."""
    counted = read_whole_number(reply, "images")
    if 0 < counted < FEWEST:
        raise BadReplyError(f"sent sums over {counted} images, which say much about each")
    form = dict.fromkeys(("sums", "squares"), torch.zeros(features, dtype=torch.float64))
    check_form("sums of features", reply.weights, form)
    sums, squares = reply.weights["sums"], reply.weights["squares"]
    # (Σx)² ≤ n·Σx², but for rounding
    if (squares * counted * (1 + 1e-9) < sums.square()).any() or (squares < 0).any():
        raise BadReplyError("sent sums of features that no images have")
    return Moments(counted, sums, squares)


def read_summary(reply: Reply, numbers: int) -> list[float] | None:
    """Read what a site says of itself, which may be nothing; else as many finite numbers as are asked for."""
    values = reply.values.get("summary")
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != numbers:
        raise BadReplyError(f"sent a summary that is not of {numbers} numbers")
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        raise BadReplyError("sent a summary that is not finite")
    return [float(value) for value in values]


LabelCounts = dict[str, int]
COUNTS = ("requested", "labelled", "skipped", "flagged", "pending", "labelled_in_all")


def read_label_counts(reply: Reply, most: int) -> LabelCounts:
    """Read how far a site is, which cannot have been asked for more than `most` images in all."""
    counts = {name: read_whole_number(reply, name) for name in COUNTS}
    if max(counts.values()) > most:
        raise BadReplyError(f"counts more images than the {most} that it can have been asked for")
    return counts


def read_evaluation(reply: Reply, classes: int) -> Evaluation:
    """Read a model's result on a site's test images; BadReplyError unless its counts can be true."""
    counts, right, predicted, loss = (
        reply.values.get(name) for name in ("tested", "right", "predicted", "loss")
    )
    if not (_is_counts(counts, classes) and _is_counts(right, classes) and _is_counts(predicted, classes)):
        raise BadReplyError("sent no sound test result")
    if any(map(gt, right, counts)) or any(map(gt, right, predicted)) or sum(predicted) != sum(counts):
        raise BadReplyError("sent no sound test result")
    if not isinstance(loss, int | float) or not math.isfinite(loss) or loss < 0:
        raise BadReplyError("sent a loss that is no number")
    return Evaluation(counts, right, predicted, float(loss))


def read_confusion(reply: Reply, evaluation: Evaluation) -> list[int]:
    """Read what a site's test images are taken for, class by class; nothing if it does not say so.

    BadReplyError if these counts do not agree with the others.
    """
    classes, flat = len(evaluation.tested), reply.values.get("confusion")
    if flat is None:  # many classes, or an earlier version
        return []
    if not _is_counts(flat, classes**2):
        raise BadReplyError("sent no sound confusion matrix")
    rows = [flat[k * classes : (k + 1) * classes] for k in range(classes)]
    agrees = [sum(row) for row in rows] == evaluation.tested
    agrees &= [sum(column) for column in zip(*rows, strict=True)] == evaluation.predicted
    if not agrees or [row[k] for k, row in enumerate(rows)] != evaluation.right:
        raise BadReplyError("sent a confusion matrix that its other counts contradict")
    return flat


def add_up(parts: Sequence[Evaluation], classes: int) -> Evaluation:
    """Add up the results on the test images of several sites, or of none."""
    tested, right, predicted = (
        [sum(counts) for counts in zip([0] * classes, *lists, strict=True)]
        for lists in (
            [part.tested for part in parts],
            [part.right for part in parts],
            [part.predicted for part in parts],
        )
    )
    losses = torch.tensor([part.loss for part in parts], dtype=torch.double)
    sizes = torch.tensor([sum(part.tested) for part in parts], dtype=torch.double)
    return Evaluation(tested, right, predicted, ((losses * sizes).sum() / sizes.sum()).item())


def _is_counts(value: Value | None, length: int) -> TypeGuard[list[int]]:
    if not isinstance(value, list) or len(value) != length:
        return False
    return all(type(n) is int and 0 <= n < LARGEST for n in value)

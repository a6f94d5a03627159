"""What is just allowed and what just not, in weights small enough to see through."""

import pytest
import torch

from fedactive.federated.algorithm import Server, Update
from fedactive.sites.coordinator.checks import (
    COUNTS,
    LARGEST,
    LARGEST_SHIFT,
    BadReplyError,
    check_buffers,
    check_effect,
    check_form,
    check_step,
    check_update,
    distance,
    parameters,
    read_label_counts,
    read_whole_number,
    statistics,
)
from fedactive.sites.messages import Reply

MODEL = {
    "layer.weight": torch.tensor([3.0, 4.0]),
    "norm.running_mean": torch.tensor([0.0, 2.0]),
    "norm.running_var": torch.tensor([4.0, 1.0]),
    "norm.num_batches_tracked": torch.tensor(3),
}


def changed(name, value):
    return MODEL | {name: torch.tensor(value, dtype=MODEL[name].dtype)}


@pytest.mark.parametrize("value", [0, 1, LARGEST - 1])
def test_whole_numbers(value):
    assert read_whole_number(Reply({"labelled": value}), "labelled") == value


@pytest.mark.parametrize("value", [-1, LARGEST, True, 1.0, [1], None])
def test_what_is_no_whole_number_is_dropped(value):
    values = {} if value is None else {"labelled": value}
    with pytest.raises(BadReplyError, match="an impossible number of labelled"):
        read_whole_number(Reply(values), "labelled")


def test_the_lowest_number_may_be_higher():
    assert read_whole_number(Reply({"samples": 1}), "samples", low=1) == 1
    with pytest.raises(BadReplyError, match="number of samples"):
        read_whole_number(Reply({"samples": 0}), "samples", low=1)


def test_all_counts_of_labels_are_read():
    values = {name: place for place, name in enumerate(COUNTS)}
    assert read_label_counts(Reply(values), most=len(COUNTS) - 1) == values
    with pytest.raises(BadReplyError, match="number of pending"):
        read_label_counts(Reply({name: n for name, n in values.items() if name != "pending"}), most=9)


@pytest.mark.parametrize("name", COUNTS)
def test_no_count_is_larger_than_what_was_asked_for(name):
    counts = dict.fromkeys(COUNTS, 0)
    read_label_counts(Reply(counts | {name: 10}), most=10)
    with pytest.raises(BadReplyError, match="counts more images than the 10 that it can have been asked for"):
        read_label_counts(Reply(counts | {name: 11}), most=10)


def test_names_shapes_and_types_must_be_the_models():
    check_form("weights", dict(MODEL), MODEL)
    with pytest.raises(
        BadReplyError,
        match=r"fit the model: layer.weight, norm.num_batches_tracked, norm.running_mean missing$",
    ):
        check_form("weights", {}, MODEL)
    with pytest.raises(BadReplyError, match="fit the model: 2 more than it has"):
        check_form("weights", MODEL | {"x": torch.zeros(1), "y": torch.zeros(1)}, MODEL)
    for other in (torch.zeros(3), torch.zeros(2, dtype=torch.float64)):
        with pytest.raises(BadReplyError, match=r"fit the model: layer\.weight$"):
            check_form("weights", MODEL | {"layer.weight": other}, MODEL)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("norm.num_batches_tracked", 0),
        ("norm.num_batches_tracked", LARGEST - 1),
        ("norm.running_var", [0.0, 1.0]),
        ("norm.running_mean", [-5.0, 1.0]),
        ("layer.weight", [-5.0, 0.0]),
    ],
)
def test_values_that_are_sound(name, value):
    check_form("weights", changed(name, value), MODEL)
    check_buffers(changed(name, value))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("norm.num_batches_tracked", -1, "an impossible count"),
        ("norm.num_batches_tracked", LARGEST, "an impossible count"),
        ("norm.running_var", [1.0, -0.1], "negative variance"),
        ("layer.weight", [0.0, float("nan")], "weights that are not finite"),
        ("norm.running_mean", [float("inf"), 0.0], "weights that are not finite"),
    ],
)
def test_one_value_that_is_not_is_enough(name, value, reason):
    with pytest.raises(BadReplyError, match=f"{reason}: {name}"):
        check_update(Reply({"samples": 1}, changed(name, value)), Server(MODEL), Update(1, MODEL), 10)


def test_tensors_of_the_algorithm_may_be_any_finite_numbers():
    own = {"running_var": torch.tensor([-1.0]), "offset": torch.tensor([-3, 2**50])}
    form = Update(1, MODEL, {"own": own})
    check_update(Reply({"samples": 1}, MODEL, {"own": own}), Server(MODEL), form, 10)


def test_one_of_many_counts_that_is_not_sound_is_enough():
    check_buffers({"seen": torch.tensor([0, 5, 9])})
    with pytest.raises(BadReplyError, match="impossible count: seen"):
        check_buffers({"seen": torch.tensor([1, -2, 3])})


def test_distances_are_over_all_tensors_in_double_precision():
    assert distance({"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, None) == 5
    assert distance({"a": torch.tensor([4.0, 6.0])}, {"a": torch.tensor([1.0, 2.0])}) == 5
    assert distance({"a": torch.tensor([3e30, 4e30])}, None) == pytest.approx(
        5e30
    )  # its square is not a float
    assert distance({}, None) == 0


def test_statistics_and_parameters_are_told_apart():
    assert set(parameters(MODEL)) == {"layer.weight"}
    found = statistics(MODEL)
    assert {name: value.tolist() for name, value in found.items()} == {
        "norm.running_mean": [0.0, 2.0],
        "norm.running_var": [2.0, 1.0],  # as standard deviations
    }


def test_a_step_is_measured_by_the_norm_of_the_model_or_by_1():
    large, small = {"w": torch.tensor([3.0, 4.0])}, {"w": torch.tensor([0.5, 0.0])}
    check_step("weights", {"w": torch.tensor([3.0, 14.0])}, large, largest=2)  # 10 = 2·5
    with pytest.raises(BadReplyError, match=r"weights 10\.5 away from the model's, whose norm is 5$"):
        check_step("weights", {"w": torch.tensor([3.0, 14.5])}, large, largest=2)
    check_step("weights", {"w": torch.tensor([2.5, 0.0])}, small, largest=2)  # 2 = 2·1
    with pytest.raises(BadReplyError, match=r"weights 2\.5 away from the model's, whose norm is 0\.5$"):
        check_step("weights", {"w": torch.tensor([3.0, 0.0])}, small, largest=2)


def update(weights, samples=1, **state):
    form = Update(1, MODEL, {"control": {"w": torch.zeros(2)}})
    check_update(Reply({"samples": samples}, weights, state), Server(MODEL), form, largest_step=2)


CONTROL = {"w": torch.ones(2)}


def test_an_update_has_samples_weights_and_the_algorithms_groups():
    update(MODEL, control=CONTROL)
    with pytest.raises(BadReplyError, match="number of samples"):
        update(MODEL, samples=0, control=CONTROL)
    with pytest.raises(BadReplyError, match="weights that do not fit"):
        update({}, control=CONTROL)
    for state in ({}, {"other": CONTROL}, {"control": CONTROL, "other": CONTROL}):
        with pytest.raises(BadReplyError, match="other groups of tensors"):
            update(MODEL, **state)
    with pytest.raises(BadReplyError, match="control tensors that do not fit the model: w missing"):
        update(MODEL, control={})


def test_parameters_and_statistics_each_have_their_largest_step():
    update(changed("layer.weight", [3.0, 14.0]), control=CONTROL)
    with pytest.raises(BadReplyError, match="sent weights 11 away"):
        update(changed("layer.weight", [3.0, 15.0]), control=CONTROL)
    far = LARGEST_SHIFT * 3.0  # the norm of (0, 2, 2, 1)
    update(changed("norm.running_mean", [far, 2.0]), control=CONTROL)
    with pytest.raises(BadReplyError, match="sent statistics"):
        update(changed("norm.running_mean", [far + 1, 2.0]), control=CONTROL)


def test_a_model_must_be_finite_everywhere():
    check_effect(Server(MODEL), Server(MODEL), 10)
    with pytest.raises(BadReplyError, match=r"model infinite: layer\.weight"):
        check_effect(Server(MODEL), Server(changed("layer.weight", [1.0, float("inf")])), 10)


def test_the_model_must_not_go_too_far_by_what_an_algorithm_sends():
    check_effect(Server(MODEL), Server(changed("layer.weight", [3.0, 14.0])), 2)
    with pytest.raises(BadReplyError, match="tensors that move the model 11 away"):
        check_effect(Server(MODEL), Server(changed("layer.weight", [3.0, 15.0])), 2)

"""A dataset knows its shape, and is recognised by its content."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedactive.data.dataset import Dataset


def changed(dataset: Dataset, part: str, position: int) -> Dataset:
    tensor = getattr(dataset, part).clone()
    tensor[position] += 1
    return replace(dataset, **{part: tensor})


def test_runs_of_earlier_versions_know_the_digits_by_their_fingerprint(digits: Dataset):
    assert digits.fingerprint == "aa21fc28db6eacc508650420b01a5a4563d8fdbbf126f952c58712724a4afb8b"


def test_other_labels_or_other_images_are_another_dataset(digits: Dataset):
    others = [changed(digits, part, 97) for part in ("train_inputs", "test_inputs")]
    others += [changed(digits, part, 5) for part in ("train_labels", "test_labels")]
    others += [replace(digits, test_inputs=digits.test_inputs.flatten(2)[..., None])]
    found = {dataset.fingerprint for dataset in (digits, *others)}
    assert len(found) == 6
    assert replace(digits, name="another").fingerprint == digits.fingerprint


def test_what_was_made_of_images_is_known_by_these(digits: Dataset):
    made = replace(digits, origin="0123456789abcdef")
    assert made.fingerprint == "0123456789abcdef"
    assert replace(made, train_inputs=made.train_inputs * 0).fingerprint == made.fingerprint


def test_all_tensors_move_to_a_device(digits: Dataset):
    moved = digits.to(torch.device("meta"))
    parts = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    assert {getattr(moved, part).device.type for part in parts} == {"meta"}
    assert moved.input_shape == digits.input_shape == (1, 8, 8)
    assert (moved.name, moved.classes) == (digits.name, digits.classes)

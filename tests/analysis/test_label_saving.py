"""Labels that another method would have needed, on made-up curves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedactive.analysis.label_saving import labels_needed

X, Y = [5, 10, 15, 20], [40.0, 50.0, 48.0, 60.0]


@pytest.mark.parametrize(
    ("target", "needed"),
    [(45, 7.5), (50, 10), (49, 9.5), (55, 15 + 5 * 7 / 12), (60, 20), (60.01, math.inf), (40, 5), (10, 5)],
)
def test_it_is_read_off_the_curve(target, needed):
    assert labels_needed(X, Y, target) == pytest.approx(needed)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=8), st.floats(0, 100))
def test_the_curve_has_the_target_there_and_not_before(accuracy, target):
    x = np.arange(1.0, len(accuracy) + 1)
    needed = labels_needed(x, accuracy, target)
    if max(accuracy) < target:
        assert needed == math.inf
        return
    assert x[0] <= needed <= x[-1]
    assert np.interp(needed, x, accuracy) >= target - 1e-6
    assert all(y < target for at, y in zip(x, accuracy, strict=True) if at < needed - 1e-9)


@given(st.floats(0, 100), st.floats(0, 100))
def test_more_accuracy_never_needs_fewer_labels(a, b):
    assert labels_needed(X, Y, min(a, b)) <= labels_needed(X, Y, max(a, b))


def test_a_method_needs_its_own_labels_on_a_curve_that_rises():
    rising = [10.0, 20.0, 25.0, 40.0]
    assert [labels_needed(X, rising, y) for y in rising] == X


def test_what_is_no_curve_is_refused():
    for x, y in (([], []), ([5, 10], [1.0]), ([10, 5], [1.0, 2.0]), ([5, 15, 10], [1.0] * 3)):
        with pytest.raises(ValueError, match="a learning curve has"):
            labels_needed(x, y, 1.0)


def test_a_budget_may_be_the_same_twice_or_grow_by_a_part_of_a_percent():
    assert labels_needed([5, 5, 5.5], [1.0, 3.0, 5.0], 4.0) == pytest.approx(5.25)
    assert labels_needed([5, 5], [1.0, 3.0], 2.0) == 5

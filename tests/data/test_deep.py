"""Pictures of more than 8 bits, value by value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fedactive.data.deep import Deep, of_png, of_values
from fedactive.data.pictures import digest_of

COUNTS = np.array([[0, 3, 500], [70, 65535, 1000]], np.uint16)
AS_IT_IS = Deep(COUNTS, 0.0, 1.0, (500.0, 1000.0))


@given(
    low=st.integers(-2000, 2000),
    step=st.sampled_from([1.0, 0.5, 3.0]),
    level=st.integers(-500, 900),
    width=st.integers(1, 4000),
    inverted=st.booleans(),
)
def test_a_window_is_black_below_and_white_above(low, step, level, width, inverted):
    deep = Deep(COUNTS, low, step, (1.0, 2.0), inverted)
    greys = np.asarray(deep.seen_through((level, width)))
    for count, grey in zip(COUNTS.flat, greys.flat, strict=True):
        seen = math.floor((low + step * int(count) - (level - width / 2)) * 255 / width)
        seen = min(max(seen, 0), 255)
        assert grey == (255 - seen if inverted else seen)


def test_without_a_window_it_is_the_pictures_own():
    assert np.array_equal(AS_IT_IS.seen_through(), AS_IT_IS.seen_through((500.0, 1000.0)))
    assert (AS_IT_IS.height, AS_IT_IS.width) == (2, 3)


def test_the_digest_is_of_what_is_shown():
    assert AS_IT_IS.digest() == digest_of(Image.fromarray(COUNTS))
    others = [
        Deep(COUNTS.reshape(3, 2), 0.0, 1.0, AS_IT_IS.window),
        Deep(COUNTS, 1.0, 1.0, AS_IT_IS.window),
        Deep(COUNTS, 0.0, 2.0, AS_IT_IS.window),
        Deep(COUNTS, 0.0, 1.0, AS_IT_IS.window, inverted=True),
        Deep(COUNTS[:, ::-1], 0.0, 1.0, AS_IT_IS.window),
    ]
    assert len({deep.digest() for deep in [AS_IT_IS, *others]}) == 6
    assert Deep(COUNTS, 0.0, 1.0, (1.0, 2.0), hounsfield=True).digest() == AS_IT_IS.digest()


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_the_window_of_a_png_is_the_least_depth_that_holds_it(bits):
    most = 2**bits - 1
    deep = of_png(Image.fromarray(np.array([[0, most]], np.uint16)))
    assert (deep.low, deep.step, deep.window) == (0.0, 1.0, (most / 2, most))
    assert deep.counts.tolist() == [[0, most]]
    assert not deep.inverted
    assert not deep.hounsfield
    if bits < 16:
        wider = 2 ** (bits + 2) - 1
        assert of_png(Image.fromarray(np.array([[most + 1]], np.uint16))).window == (wider / 2, wider)


def test_pixels_of_a_png_outside_sixteen_bits_are_cut_off():
    assert of_png(Image.fromarray(np.array([[-5, 7, 70_000]], np.int32))).counts.tolist() == [[0, 7, 65535]]


def made(*values, window=None):
    deep = of_values(np.array([values]), window, inverted=False, hounsfield=False)
    shown = deep.low + deep.step * deep.counts.astype(float)
    return deep, shown[0].tolist()


def test_whole_numbers_are_kept_as_they_are():
    deep, shown = made(-1024.0, 7.0, 64511.0)
    assert shown == [-1024.0, 7.0, 64511.0]
    assert (deep.low, deep.step) == (-1024.0, 1.0)
    assert deep.window == ((64511 - 1024) / 2, 65535.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6))
def test_real_numbers_are_kept_to_one_part_in_65535(values):
    deep, shown = made(*values)
    span = max(values) - min(values)
    assert shown == pytest.approx(values, abs=max(span / 65535 * 0.51, 1e-9))
    assert deep.window == (pytest.approx((min(values) + max(values)) / 2), max(span, deep.step))


def test_numbers_that_are_not_whole_or_too_far_apart_take_all_steps():
    for values in ((0.0, 0.25, 1.0), (0.0, 3.0, 65536.0), (-40_000.0, 0.0, 30_000.0)):
        assert made(*values)[0].counts.max() == 65535
    assert made(0.5, 0.5)[0].step == 1.0
    assert made(0.5, 0.5)[0].window == (0.5, 1.0)


def test_a_stated_window_and_what_values_are_is_kept():
    assert made(1.0, 5.0, window=(2.0, 3.0))[0].window == (2.0, 3.0)
    for inverted, hounsfield in ((True, False), (False, True)):
        deep = of_values(np.ones((1, 1)), None, inverted=inverted, hounsfield=hounsfield)
        assert (deep.inverted, deep.hounsfield) == (inverted, hounsfield)

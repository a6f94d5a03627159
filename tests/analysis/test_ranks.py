"""Ranks and critical differences, against published tables and scipy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fedactive.analysis.ranks import cliques, critical_difference, rank_methods

# Demšar 2006, Table 5 (a): critical values q of the two-tailed Nemenyi test at 0.05, by number of methods.
PUBLISHED = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
TENTH = {2: 1.645, 3: 2.052, 4: 2.291, 5: 2.459, 6: 2.589, 7: 2.693, 8: 2.780, 9: 2.855, 10: 2.920}


@pytest.mark.parametrize(("error_rate", "table"), [(0.05, PUBLISHED), (0.1, TENTH)])
def test_critical_values_are_those_of_the_published_table(error_rate, table):
    for k, q in table.items():
        N = k * (k + 1)  # so that the root is 1/√6
        assert critical_difference(k, N, error_rate) * np.sqrt(6) == pytest.approx(q, abs=0.0015)


def test_the_published_example():
    """Demšar compares four classifiers on 14 data sets: CD = 2.569·√(4·5/(6·14)) = 1.25."""
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_two_methods_and_two_comparisons_are_enough():
    assert critical_difference(2, 2) == pytest.approx(1.960 * np.sqrt(0.5), abs=0.001)
    ten = pd.DataFrame({"a": np.ones(10), "b": np.zeros(10)})
    assert rank_methods(ten).p == pytest.approx(scipy.stats.chi2.sf(10, 1))  # 12·(10² + 20²)/60 - 90


def test_ranks_by_hand():
    scores = pd.DataFrame({"a": [3.0, 9.0, 5.0], "b": [2.0, 8.0, 5.0], "c": [1.0, 7.0, 6.0]})
    ranks = rank_methods(scores)
    assert ranks.comparisons == 3
    assert ranks.means.to_dict() == pytest.approx({"a": 4.5 / 3, "b": 6.5 / 3, "c": 7 / 3})
    assert list(ranks.means.index) == ["a", "b", "c"]


def test_a_comparison_without_all_methods_is_left_out():
    scores = pd.DataFrame({"a": [3.0, 1.0, np.nan], "b": [2.0, 2.0, 9.0]})
    assert rank_methods(scores).comparisons == 2
    assert rank_methods(scores.iloc[2:]).comparisons == 0
    assert np.isnan(rank_methods(scores.iloc[2:]).p)
    assert np.isnan(rank_methods(scores[["a"]]).critical_difference)


@st.composite
def tables(draw):
    N, k = draw(st.integers(2, 8)), draw(st.integers(3, 6))
    row = st.lists(st.integers(0, 6), min_size=k, max_size=k)
    return pd.DataFrame(draw(st.lists(row, min_size=N, max_size=N)), columns=list("abcdef")[:k], dtype=float)


@given(tables())
def test_friedman_is_scipys_and_ranks_add_up(scores):
    ranks = rank_methods(scores)
    k = scores.shape[1]
    assert ranks.means.mean() == pytest.approx((k + 1) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        theirs = scipy.stats.friedmanchisquare(*(scores[name] for name in scores)).pvalue
    assert ranks.p == pytest.approx(1.0 if np.isnan(theirs) else theirs)


@given(tables(), st.floats(0.01, 5))
def test_groups_hold_all_that_are_close_and_nothing_else(scores, difference):
    means = rank_methods(scores).means
    groups = cliques(means, difference)
    for i, a in enumerate(means.index):
        for b in means.index[i + 1 :]:
            close = means[b] <= means[a] + difference
            assert close == any(a in group and b in group for group in groups)
    assert all(len(group) > 1 for group in groups)
    assert not any(set(one) < set(other) for one in groups for other in groups)

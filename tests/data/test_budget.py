import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedactive.data.budget import budget_in, budget_until, budgets_per_client, numbers_of, shortest
from fedactive.errors import ConfigurationError


@pytest.mark.parametrize(
    ("samples", "budget"), [(50_000, 250), (73_257, 366), (89_996, 450), (34_581, 173), (7_007, 35)]
)
def test_published_budgets(samples: int, budget: int) -> None:
    assert budgets_per_client(samples, 10, 5) == (budget,)


@pytest.mark.parametrize(
    ("percent", "budget"),
    [(2.3, 115), (4.1, 205), (0.1, 5), (1, 50), (12.5, 625), (33.33, 1666), (100, 5000)],
)
def test_percents_are_decimals(percent: float, budget: int) -> None:
    assert budgets_per_client(50_000, 10, percent) == (budget,)


def test_a_budget_of_less_than_one_label_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="1400 samples, rounded to hundreds, 100 clients"):
        budgets_per_client(1400, 100, 5)


def test_a_budget_of_one_label_is_enough() -> None:
    assert budgets_per_client(2000, 100, 5) == (1,)


@pytest.mark.parametrize("labels", [1, 7, 250])
def test_a_number_of_labels_is_what_each_client_has(labels: int) -> None:
    assert budgets_per_client(1437, 3, f"{labels}/client") == (labels,)


def test_numbers_by_round_of_which_the_last_repeats() -> None:
    budgets = budgets_per_client(1437, 3, "5+7+30/client")
    assert budgets == (5, 7, 30)
    assert [budget_in(budgets, r) for r in (1, 2, 3, 4, 9)] == [5, 7, 30, 30, 30]
    assert [budget_until(budgets, r) for r in range(6)] == [0, 5, 12, 42, 72, 102]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_equal_budgets_are_written_alike_and_as_short_as_can_be(numbers: list[int]) -> None:
    short = numbers_of(shortest("+".join(map(str, numbers)) + "/client"))
    assert [budget_in(short, r) for r in range(1, 9)] == [budget_in(numbers, r) for r in range(1, 9)]
    assert len(short) == 1 or short[-1] != short[-2]

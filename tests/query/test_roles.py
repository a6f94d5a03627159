"""The document of strategies names all strategies and all models that one can ask for."""

import re
from pathlib import Path

import pytest

import fedactive
from fedactive.query import STRATEGIES, make_strategy
from fedactive.query.roles import COMMITTEES, MODEL_ROLES, REMEMBERED

DOCUMENT = (Path(fedactive.__file__).parents[2] / "docs" / "STRATEGIES.md").read_text(encoding="utf-8")


def rows():
    """The names in the first column of the table of strategies, with what they ask for."""
    table = DOCUMENT.split("| strategy | what it queries |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        cells = line.split("|")
        yield from ((name, cells[3]) for name in re.findall(r"`(\w+)`", cells[1]))


@pytest.mark.parametrize("name", sorted(STRATEGIES.ours))
def test_every_strategy_is_in_the_table_with_what_it_asks_for(name):
    described = dict(rows())[name]
    for selector in STRATEGIES[name].selectors:
        strategy = make_strategy(name, selector)
        assert {f"`{need}`" for need in strategy.needs} <= set(re.findall(r"`\w+`", described)), described
        told = re.findall(r"(\w+) numbers? of each client", described)
        assert told == ["a" if strategy.numbers == 1 else str(strategy.numbers)] * bool(strategy.numbers)


def test_no_other_strategy_is():
    assert {name for name, _ in rows()} == set(STRATEGIES.ours)


@pytest.mark.parametrize("role", [*MODEL_ROLES, *COMMITTEES])
def test_every_model_is_described(role):
    assert f'| `"{role}"` |' in DOCUMENT


def test_what_is_remembered_can_be_asked_for():
    assert {*MODEL_ROLES, *COMMITTEES} > REMEMBERED

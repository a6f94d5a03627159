"""Nothing breaks it: whatever is typed, and whatever lies in a file, the answer is a sentence and an exit code.

The same cases every time; `make fuzz` does thousands of others.
"""

from __future__ import annotations

import pytest

from fuzz.cases import TARGETS, Case
from fuzz.sound import Sound

# 2,000 in all; those that take longer are fewer.
CASES = {
    "typed": 1000,
    "settings": 60,
    "toml": 540,
    "npz": 120,
    "pictures": 70,
    "dicom": 50,
    "models": 50,
    "runs": 30,
    "results": 20,
    "sites": 60,
}


@pytest.fixture(scope="session")
def sound(tmp_path_factory):
    return Sound(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("target", TARGETS)
def test_a_sentence_and_an_exit_code(target, sound, tmp_path):
    for number in range(CASES[target]):
        case, place = Case(target, 0, number), tmp_path / "case"
        words, answer = case.run(place, sound)
        assert not answer.problems, case.describe(words, answer, place)


def test_there_are_two_thousand_cases():
    assert sum(CASES.values()) == 2000
    assert CASES.keys() == TARGETS.keys()

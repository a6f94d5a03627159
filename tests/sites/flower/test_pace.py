"""Who waits for something looks often at first, then less and less."""

from __future__ import annotations

import time

import pytest
from flwr.supercore.inflatable import inflatable_utils as parts

from fedactive.sites.flower import pace


@pytest.fixture
def slept(monkeypatch):
    found = []
    monkeypatch.setattr(pace.time, "sleep", found.append)
    return found


def test_pauses_grow_to_the_longest_until_something_comes(slept):
    keeping = pace.Pace(0.13)
    for _ in range(2):
        keeping.quicken()
        for _ in range(4):
            keeping.rest()
    assert slept == 2 * [0.1, 0.1 * 1.2, 0.13, 0.13]


def test_a_supernode_looks_seldom_until_it_has_had_a_message(slept):
    time_of_flower = pace.FlowersTime()
    for seconds in (3, 3, 0.5, 3, 3):  # no message yet, one that is being answered, none
        time_of_flower.sleep(seconds)
    assert slept == [3.0, 3.0, 0.1, 0.1, 0.1 * 1.2]


def test_a_part_that_is_on_its_way_is_asked_for_again_soon(monkeypatch):
    for pull in (parts.pull_objects, parts.pull_and_inflate_object_from_tree):
        monkeypatch.setattr(pull, "__kwdefaults__", pull.__kwdefaults__)  # for the tests after this one
    asked = []

    def pull_part(name):
        asked.append(name)
        if len(asked) < 3:
            raise parts.ObjectUnavailableError(name)
        return b"content"

    pace.ask_again_soon()
    begun = time.monotonic()
    assert parts.pull_objects(["part"], pull_part) == {"part": b"content"}
    assert len(asked) == 3
    assert time.monotonic() - begun < 1.0  # Flower's own pauses are 1 s and 2 s, or 20% less

"""Whose call it is, by its headers."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from fedactive.sites.flower import signatures
from fedactive.sites.flower.signatures import Signatures, UnknownSiteError, WrongClockError
from support.site_key import SiteKey

ORDER_OF_P384 = (
    0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973
)

NORTH, SOUTH, STRANGER = (SiteKey() for _ in range(3))


@pytest.fixture
def door():
    found = Signatures(lambda: [NORTH.public, SOUTH.public])
    found.begun -= timedelta(hours=1)
    return found


def test_a_signed_call_is_that_of_its_site(door):
    assert door.find_site(NORTH.sign()) == NORTH.public
    assert door.find_site(SOUTH.sign(seconds_ago=250)) == SOUTH.public


@pytest.mark.parametrize(
    "headers",
    [
        {},
        STRANGER.sign(),
        STRANGER.sign(as_if=NORTH),  # a public key is no secret
        SOUTH.sign(as_if=NORTH),
        NORTH.sign() | {"flwr-signature": ""},
        NORTH.sign() | {"flwr-signature": "é"},
        {name: f"!{value}" if name == "flwr-signature" else value for name, value in NORTH.sign().items()},
        NORTH.sign() | {"flwr-timestamp": "yesterday"},
        NORTH.sign() | {"flwr-timestamp": "2026-01-01T00:00:00"},
        {name: value for name, value in NORTH.sign().items() if name != "flwr-timestamp"},
    ],
    ids=range(10),
)
def test_all_else_is_nobodys(door, headers):
    with pytest.raises(UnknownSiteError):
        door.find_site(headers)


@pytest.mark.parametrize("seconds_ago", [301, -6])
def test_a_call_of_another_time(door, seconds_ago):
    with pytest.raises(WrongClockError):
        door.find_site(NORTH.sign(seconds_ago))


@pytest.mark.parametrize(("age", "taken"), [(-5, False), (-4.999, True), (299.999, True), (300, False)])
def test_the_oldest_and_the_newest_call_that_are_taken(door, monkeypatch, age, taken):
    headers = NORTH.sign()
    signed = datetime.fromisoformat(headers["flwr-timestamp"])
    monkeypatch.setattr(signatures, "now", lambda: signed + timedelta(seconds=age))
    if taken:
        assert door.find_site(headers) == NORTH.public
    else:
        with pytest.raises(WrongClockError):
            door.find_site(headers)


def test_a_signature_is_good_once(door):
    headers = NORTH.sign()
    r, s = decode_dss_signature(b64decode(headers["flwr-signature"]))
    twin = encode_dss_signature(r, ORDER_OF_P384 - s)  # signs the same, and nobody needs the key to make it
    door.find_site(headers)
    for again in (headers, headers | {"flwr-signature": b64encode(twin).decode()}):
        with pytest.raises(UnknownSiteError, match="used before"):
            door.find_site(again)
    assert door.find_site(NORTH.sign()) == NORTH.public


def test_who_starts_anew_takes_nothing_from_before():
    door = Signatures(lambda: [NORTH.public])
    with pytest.raises(WrongClockError):
        door.find_site(NORTH.sign(seconds_ago=60))
    door.find_site(NORTH.sign())


def test_the_oldest_call_that_is_taken_after_a_start(door):
    first, second = NORTH.sign(), NORTH.sign()
    door.begun = datetime.fromisoformat(first["flwr-timestamp"]) + timedelta(seconds=5)
    assert door.find_site(first) == NORTH.public
    door.begun = datetime.fromisoformat(second["flwr-timestamp"]) + timedelta(seconds=5.001)
    with pytest.raises(WrongClockError):
        door.find_site(second)


def test_a_call_of_a_clock_that_is_ahead_is_remembered_longer(door, monkeypatch):
    begun, ahead, later = signatures.now(), NORTH.sign(seconds_ago=-4), NORTH.sign(seconds_ago=-301)
    door.find_site(ahead)
    monkeypatch.setattr(signatures, "now", lambda: begun + timedelta(seconds=301))
    door.find_site(later)  # whatever is forgotten is forgotten now
    with pytest.raises(UnknownSiteError, match="used before"):
        door.find_site(ahead)


def test_what_is_too_old_to_be_used_again_is_forgotten(door, monkeypatch):
    begun = signatures.now()
    for hours in range(3):
        monkeypatch.setattr(signatures, "now", lambda hours=hours: begun + timedelta(hours=hours))
        for seconds in range(5):
            door.find_site(NORTH.sign(seconds_ago=seconds - 3600 * hours))
    assert len(door.used) == len(door.used_at) == 5

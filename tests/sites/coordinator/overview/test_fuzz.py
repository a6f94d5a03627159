"""Hundreds of requests to the coordinator's page, sound ones and others: no 5xx, no traceback."""

from __future__ import annotations

from support.described import REQUESTS, describe, require_no_failure, send_described
from support.unharmed import unharmed

EACH = REQUESTS // 40


def test_requests_of_somebody_inside(app, inside):
    with unharmed():
        statuses = send_described(inside, describe(app), EACH)
    require_no_failure(statuses, EACH)
    assert statuses[200] > 1, statuses
    assert statuses[404] > 20, statuses  # runs that there are not


def test_requests_of_a_stranger(app, client):
    client.follow_redirects = False
    with unharmed():
        statuses = send_described(client, describe(app), EACH)
    require_no_failure(statuses, EACH)
    assert statuses[303] > 20, statuses  # to the sign-in
    assert statuses[403] + statuses[429] > 20, statuses

"""What users see of an error."""

import pytest

from fedactive.errors import LONGEST, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a = 'é€🦆'\nb", "a = 'é€🦆'\nb"),
        ("name\x1b[2J\t.png", "name\\x1b[2J\\t.png"),
        ("a\udc80b", "a\\udc80b"),
    ],
)
def test_a_terminal_is_sent_no_control_characters(text, shown):
    assert plain(text) == shown


def test_a_long_message_keeps_its_beginning_and_its_end():
    shown = plain("given: " + "x" * 10**6 + ", allowed is a number")
    assert len(shown) < LONGEST + 10
    assert shown.startswith("given: xxx")
    assert shown.endswith("x, allowed is a number")

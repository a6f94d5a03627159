"""What a test needs and a machine may not have."""

import os
from typing import NoReturn

import pytest

NO_GPU = "there is no GPU here"  # the reason of all tests that want one: the summary counts them in one line


def lacking(reason: str) -> NoReturn:
    """The test is left out with its reason, but where the variable CI is set it fails: all must run there."""
    if os.environ.get("CI"):
        pytest.fail(f"needed here: {reason}")
    pytest.skip(reason)

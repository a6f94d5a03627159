"""Searches for garbage rest while much is imported, and only then."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from fedactive.quick_imports import quick_imports

PROGRAM = """
import gc
from fedactive.quick_imports import quick_imports

gc.collect()
searches = []
gc.callbacks.append(lambda phase, _: searches.append(phase))
with quick_imports():
    import asyncio
print(searches, gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


def test_nothing_is_searched_while_a_process_imports():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True True\n"


def test_what_is_imported_already_keeps_nothing():
    before = gc.get_freeze_count()
    with quick_imports():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() <= before


def test_searches_go_on_after_a_failure_and_stay_off_where_they_were():
    with pytest.raises(ModuleNotFoundError), quick_imports():
        import fedactive.nowhere  # noqa: F401
    assert gc.isenabled()
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

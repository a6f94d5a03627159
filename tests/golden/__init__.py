"""Numbers that no refactoring may change: small real runs, recorded once and repeated bit for bit.

`expected.json` has what came out of the runs in `cases.py`, `folders/` has run folders that an earlier version
left behind. `python -m tests.golden.record` records what is meant to change.
"""

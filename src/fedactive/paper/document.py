"""Tables inside a document, kept true to the results they were made from.

A table stands between two comments. The first says which table it is:

    <!-- table: accuracy datasets=cifar10 until=40 precision=bf16 -->
    <!-- end -->

After the name of a table come options of `fedactive paper show`. There are two other kinds, with the same
options. `<!-- setting: 13 precision=bf16 -->` shows our learning curves in one of the 38 settings (see
`fedactive paper settings`), also where the paper printed no numbers. `<!-- claims: precision=bf16 -->` shows
the paper's claims with our verdicts; before the first of these stands the rule by which they are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fedactive.analysis.document import fill_blocks
from fedactive.analysis.markdown import to_markdown
from fedactive.errors import ConfigurationError, UserError
from fedactive.paper.claims import claims, explain_rule
from fedactive.paper.figures import NoRunsError, curves_of
from fedactive.paper.markdown import NO_RUNS, claims_table, curves_table, side_by_side
from fedactive.paper.precision import precisions, shared_precision
from fedactive.paper.reproduce import show
from fedactive.paper.settings import all_settings
from fedactive.record.archive import Archive
from fedactive.record.stored import StoredRun

OPTIONS: dict[str, Callable[[str], Any]] = {
    "until": float,
    "seeds": int,
    "datasets": lambda text: text.split(","),
    "strategies": lambda text: text.split(","),
    "fl_rounds": int,
    "partition": str,
    "schedule": str,
    "precision": str,
    "alfamix_head": str,
}


def fill(document: str, runs: Iterable[StoredRun]) -> str:
    """Return the document with everything between such comments made anew from these runs."""
    runs = list(runs)
    rules = iter([f"{explain_rule()}\n"])  # only before the first table of claims
    return fill_blocks(
        document,
        {
            "table": lambda words: make_table(words, runs),
            "setting": lambda words: make_setting(words, runs),
            "claims": lambda words: next(rules, "") + make_claims(words, runs),
        },
    )


def make_table(words: list[str], runs: list[StoredRun]) -> str:
    name = words[0] if words else ""
    frame = show(name, runs, **read_options(words[1:], runs))
    if "ours" in frame:
        return side_by_side(frame, accuracy=name in ("accuracy", "ensembles", "algorithms"))
    rows = frame[frame["seeds"] > 0] if "seeds" in frame else frame
    nobody = list(rows) == ["strategy"]  # `penalty` has no other columns where nothing could be tested
    return NO_RUNS if rows.empty or nobody else to_markdown(rows)


def make_setting(words: list[str], runs: list[StoredRun]) -> str:
    numbers = {str(setting.number): setting.number for setting in all_settings()}
    if not words or words[0] not in numbers:
        raise UserError(f"the number of a setting is missing, 1 to {len(numbers)}")
    given = read_options(words[1:], runs, "datasets", "strategies")  # it has one dataset, all strategies
    until = given.pop("until", 100.0)
    try:
        archive = Archive(runs, given.pop("seeds", None))
        (curves,) = curves_of(archive, numbers[words[0]], **given).values()
    except NoRunsError:
        return "There are no runs of this setting.\n"
    if until < (first := curves["labelled"].min()):
        raise ConfigurationError("until", until, f"at least {first:g}, where the runs begin")
    return curves_table(curves[curves["labelled"] <= until])


def make_claims(words: list[str], runs: list[StoredRun]) -> str:
    given = read_options(words, runs, "strategies")
    return claims_table(claims(Archive(runs, given.pop("seeds", None)), **given))


def read_options(words: Iterable[str], runs: list[StoredRun], *without: str) -> dict[str, Any]:
    """Read `name=value` words; `without` are the options that this kind of block does not have."""
    allowed = [name for name in OPTIONS if name not in without]
    found = shared_precision(runs)
    for word in words:
        option, _, text = word.partition("=")
        if option not in allowed:
            raise UserError(f"unknown option {option}; allowed: {', '.join(allowed)}")
        try:
            found[option] = value = OPTIONS[option](text)
            if isinstance(value, int | float) and not value > 0:  # refuses nan, too
                raise ValueError
        except ValueError:
            raise UserError(f"{option} is a positive number, not {text!r}") from None
    kinds = precisions(runs)
    if len(kinds) > 1 and "precision" not in found:  # the default one may have no runs of this table
        raise UserError(f"there are runs in {' and '.join(kinds)}; say which, as in precision={kinds[0]}")
    return found

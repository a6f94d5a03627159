"""Tables inside a document, kept true to the results they were made from.

A table stands between two comments. The first says which table it is:

    <!-- table: accuracy datasets=cifar10 until=40 precision=bf16 -->
    <!-- end -->

After the name of a table come options of `fedactive paper show`. A setting has the same
options. `<!-- setting: 13 precision=bf16 -->` shows our learning curves in one of the 38 settings (see
`fedactive paper settings`), also where the paper printed no numbers. Four kinds are about all tables:

    <!-- claims: -->      the paper's claims one by one, with verdicts and tests
    <!-- verdicts: -->    the same in short, a column per dataset: new seeds first, then all
    <!-- agreement: -->   how many accuracies were run, how near they are, and in the same order or not
    <!-- summary: -->     two sentences

Two are for runs that the paper does not have, whose budgets count labels, chosen by their settings:
`<!-- few-labels: dataset=svhn alpha=0.1 -->` is a table, `<!-- picture: svhn.svg title=SVHN dataset=svhn -->`
shows a picture, which is drawn beside the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedactive.analysis.document import fill_blocks
from fedactive.analysis.markdown import to_markdown
from fedactive.errors import ConfigurationError, UserError
from fedactive.paper.agreement import ACCURACIES, all_accuracies, summarise_agreement, with_limits
from fedactive.paper.claims import NEW_SEEDS, claims
from fedactive.paper.few_labels import few_labels_picture, few_labels_table
from fedactive.paper.figures import NoRunsError, curves_of
from fedactive.paper.markdown import (
    NO_RUNS,
    claims_table,
    curves_table,
    side_by_side,
    summary_text,
    verdicts_by_dataset,
)
from fedactive.paper.precision import precisions, shared_precision
from fedactive.paper.reproduce import show
from fedactive.paper.settings import all_settings, seed_range
from fedactive.record.archive import Archive
from fedactive.record.stored import StoredRun

OPTIONS: dict[str, Callable[[str], Any]] = {
    "until": float,
    "seeds": seed_range,
    "threshold": str,
    "datasets": lambda text: text.split(","),
    "strategies": lambda text: text.split(","),
    "fl_rounds": int,
    "partition": str,
    "schedule": str,
    "precision": str,
    "scored_images": str,
    "alfamix_head": str,
}


ROWS = ("until", "seeds", "threshold", "datasets", "strategies")  # the others say how runs were made


def fill(document: str, runs: Iterable[StoredRun]) -> str:
    """Return the document with everything between such comments made anew from these runs."""
    runs = list(runs)
    return fill_blocks(
        document,
        {
            "table": lambda words: make_table(words, runs),
            "setting": lambda words: make_setting(words, runs),
            "claims": lambda words: make_claims(words, runs),
            "verdicts": lambda words: make_verdicts(words, runs),
            "agreement": lambda words: make_agreement(words, runs),
            "summary": lambda words: make_summary(words, runs),
            "few-labels": lambda words: few_labels_table(words, runs),
            "picture": make_picture,
        },
    )


def pictures(document: str, runs: Iterable[StoredRun]) -> dict[str, bytes]:
    """Draw the document's pictures, by their paths, which are relative to the document."""
    runs, drawn = list(runs), dict[str, bytes]()

    def draw(words: list[str]) -> str:
        drawn[words[0]] = few_labels_picture(words[1:], runs, Path(words[0]).suffix)
        return make_picture(words)

    if "<!-- picture:" in document:
        fill_blocks(document, {"picture": draw})
    return drawn


def make_picture(words: list[str]) -> str:
    if not words or "=" in words[0]:
        raise UserError("the path of the picture is missing, as in picture.svg")
    title = next((word.partition("=")[2].replace("_", " ") for word in words if "title=" in word), words[0])
    return f"![{title}]({words[0]})\n"


def make_table(words: list[str], runs: list[StoredRun]) -> str:
    name = words[0] if words else ""
    given = read_options(words[1:], runs)
    frame = show(name, runs, **given)
    if name in ACCURACIES:
        overrides = {field: value for field, value in given.items() if field not in ROWS}
        frame = with_limits(frame, name, Archive(runs, given.get("seeds")), **overrides)
    if "ours" in frame:
        return side_by_side(frame)
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
    given = read_options(words, runs, "strategies", "threshold")
    return claims_table(claims(Archive(runs, given.pop("seeds", None)), **given))


def make_verdicts(words: list[str], runs: list[StoredRun]) -> str:
    given = read_options(words, runs, *ROWS)
    return verdicts_by_dataset(claims(Archive(runs, NEW_SEEDS), **given), claims(Archive(runs), **given))


def make_agreement(words: list[str], runs: list[StoredRun]) -> str:
    return to_markdown(summarise_agreement(all_accuracies(Archive(runs), **read_options(words, runs, *ROWS))))


def make_summary(words: list[str], runs: list[StoredRun]) -> str:
    given, archive = read_options(words, runs, *ROWS), Archive(runs)
    return summary_text(all_accuracies(archive, **given), claims(archive, **given))


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

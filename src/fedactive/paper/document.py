"""Tables inside a document, kept true to the results they were made from.

A table stands between two comments, of which the first says what it is:

    <!-- table: accuracy datasets=cifar10 until=40 precision=bf16 -->
    <!-- end -->

Its words are the name of a table and options of `fedactive paper show`. Of settings that the paper has no
printed numbers of, `<!-- setting: 13 precision=bf16 -->` (see `fedactive paper settings`) has ours alone. The
paper's claims with our verdicts stand after `<!-- claims: precision=bf16 -->`, the first of these with the
rule by which they are judged. Options are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from fedactive.errors import ConfigurationError, UserError
from fedactive.paper.archive import Archive, precisions, shared_precision
from fedactive.paper.claims import claims, explain_rule
from fedactive.paper.figures import NoRunsError, curves_of
from fedactive.paper.markdown import NO_RUNS, OFF, learning, markdown, side_by_side, verdicts
from fedactive.paper.reproduce import show
from fedactive.paper.settings import all_settings
from fedactive.record.stored import StoredRun

BEGIN = r"<!-- (?P<kind>table|setting|claims):"
BLOCK = re.compile(
    rf"(?P<begin>{BEGIN}(?P<words>[^\n]*)-->\n)(?P<content>(?:(?!<!-- ).)*)(?P<end><!-- end -->)", re.DOTALL
)


def positive(kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise ValueError
        return value

    return read


READ: dict[str, Any] = {
    "until": positive(float),
    "seeds": positive(int),
    "datasets": lambda text: text.split(","),
    "strategies": lambda text: text.split(","),
    "fl_rounds": positive(int),
    "partition": str,
    "schedule": str,
    "precision": str,
    "alfamix_head": str,
}
OF_ACCURACY = ("accuracy", "ensembles", "algorithms")


def filled(document: str, runs: Iterable[StoredRun]) -> str:
    """The document with everything between such comments made anew from these runs."""
    runs = list(runs)
    kinds, shared = precisions(runs), shared_precision(runs)

    def given(words: list[str], block: re.Match[str], *without: str) -> dict[str, Any]:
        found = shared | options(words, block, READ.keys() - set(without))
        if len(kinds) > 1 and "precision" not in found:  # the default one may have no runs of this table
            problem = f"there are runs in {' and '.join(kinds)}; say which, as in precision={kinds[0]}"
            raise UserError(f"{block['begin'].strip()}: {problem}")
        return found

    def made(block: re.Match[str]) -> str:
        words = block["words"].split()
        if block["kind"] == "claims":
            chosen = given(words, block, "strategies")
            content = verdicts(claims(Archive(runs, chosen.pop("seeds", None)), **chosen))
            if block.start() == document.find("<!-- claims:"):  # the rule is said once
                content = f"{explain_rule()}\n{content}"
        elif block["kind"] == "setting":
            chosen = given(words[1:], block, "datasets", "strategies")  # it has one dataset, all strategies
            content = setting(number(words, block), runs, chosen)
        else:
            content = table(words[0] if words else "", runs, given(words[1:], block))
        return block["begin"] + content + block["end"]

    filled, blocks = BLOCK.subn(made, document)
    if not blocks or blocks < len(re.findall(BEGIN, document)):
        which = "no" if not blocks else "one without an end among its"
        raise UserError(f"the document has {which} '<!-- table: NAME -->' ... '<!-- end -->' to fill")
    return filled


def table(name: str, runs: list[StoredRun], given: dict[str, Any]) -> str:
    frame = show(name, runs, **given)
    if "ours" in frame:
        return side_by_side(frame, off=OFF if name in OF_ACCURACY else None)
    made = frame[frame["seeds"] > 0] if "seeds" in frame else frame
    nobody = list(made) == ["strategy"]  # beats anybody: `penalty` has no other columns then
    return NO_RUNS if made.empty or nobody else markdown(made)


def setting(number: int, runs: list[StoredRun], given: dict[str, Any]) -> str:
    until = given.pop("until", 100.0)
    try:
        (curves,) = curves_of(Archive(runs, given.pop("seeds", None)), number, **given).values()
    except NoRunsError:
        return "There are no runs of this setting.\n"
    if until < (first := curves["labelled"].min()):
        raise ConfigurationError("until", until, f"at least {first:g}, where the runs begin")
    return learning(curves[curves["labelled"] <= until])


def number(words: list[str], block: re.Match[str]) -> int:
    numbers = {str(setting.number): setting.number for setting in all_settings()}
    if not words or words[0] not in numbers:
        raise UserError(f"{block['begin'].strip()}: the number of a setting is missing, 1 to {len(numbers)}")
    return numbers[words[0]]


def options(
    words: Iterable[str], block: re.Match[str], allowed: Collection[str] = READ.keys()
) -> dict[str, Any]:
    found = {}
    for word in words:
        option, _, value = word.partition("=")
        if option not in allowed:
            known = ", ".join(name for name in READ if name in allowed)
            raise UserError(f"{block['begin'].strip()}: unknown option {option}; allowed: {known}")
        try:
            found[option] = READ[option](value)
        except ValueError:
            raise UserError(
                f"{block['begin'].strip()}: {option} is a positive number, not {value!r}"
            ) from None
    return found

"""Tables inside a document, kept true to the results they were made from.

A table stands between two comments, of which the first says what it is:

    <!-- table: accuracy datasets=cifar10 until=40 precision=bf16 -->
    <!-- end -->

Its words are the name of a table and options of `fedactive paper show`. Of settings that the paper has no
printed numbers of, `<!-- setting: 13 precision=bf16 -->` (see `fedactive paper settings`) has ours alone. The
paper's claims with our verdicts stand after `<!-- claims: precision=bf16 -->`. Options are the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from fedactive.analysis.stored import StoredRun
from fedactive.errors import UserError
from fedactive.paper.archive import Archive, shared_precision
from fedactive.paper.claims import claims
from fedactive.paper.figures import curves_of
from fedactive.paper.markdown import OFF, learning, markdown, side_by_side, verdicts
from fedactive.paper.reproduce import show
from fedactive.paper.settings import all_settings

BEGIN = r"<!-- (?P<kind>table|setting|claims):"
BLOCK = re.compile(
    rf"(?P<begin>{BEGIN}(?P<words>[^\n]*)-->\n)(?P<content>(?:(?!<!-- ).)*)(?P<end><!-- end -->)", re.DOTALL
)
READ: dict[str, Any] = {
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
OF_ACCURACY = ("accuracy", "ensembles", "algorithms")


def filled(document: str, runs: Iterable[StoredRun]) -> str:
    """The document with everything between such comments made anew from these runs."""
    runs = list(runs)
    shared = shared_precision(runs)

    def made(block: re.Match[str]) -> str:
        words = block["words"].split()
        if block["kind"] == "claims":
            given = shared | options(words, block, READ.keys() - {"strategies"})
            content = verdicts(claims(Archive(runs, given.pop("seeds", None)), **given))
        elif block["kind"] == "setting":
            of_settings = READ.keys() - {"datasets", "strategies"}  # it has one dataset, all strategies
            given = shared | options(words[1:], block, of_settings)
            content = setting(number(words, block), runs, given)
        else:
            content = table(words[0] if words else "", runs, shared | options(words[1:], block))
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
    return markdown(frame[frame["seeds"] > 0] if "seeds" in frame else frame)


def setting(number: int, runs: list[StoredRun], given: dict[str, Any]) -> str:
    until = given.pop("until", 100.0)
    (curves,) = curves_of(Archive(runs, given.pop("seeds", None)), number, **given).values()
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
            raise UserError(f"{block['begin'].strip()}: {option} is a number, not {value!r}") from None
    return found

"""Blocks inside a Markdown document, kept true to what they are made from.

A block stands between two comments. The first says its kind, and what the maker of that kind needs to know:

    <!-- table: accuracy datasets=cifar10 -->
    <!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from fedactive.errors import UserError
from fedactive.files import write_output

Makers = Mapping[str, Callable[[list[str]], str]]  # by kind: from the words of a comment to the content


def fill_blocks(document: str, makers: Makers) -> str:
    """Return the document with the content of every block made anew."""
    begin = rf"<!-- (?P<kind>{'|'.join(makers)}):"
    pattern = rf"(?P<begin>{begin}(?P<words>[^\n]*)-->\n)(?P<content>(?:(?!<!-- ).)*)(?P<end><!-- end -->)"

    def make(block: re.Match[str]) -> str:
        try:
            content = makers[block["kind"]](block["words"].split())
        except UserError as error:
            raise UserError(f"{block['begin'].strip()}: {error}") from None
        return block["begin"] + content + block["end"]

    filled, blocks = re.subn(pattern, make, document, flags=re.DOTALL)
    if not blocks or blocks < len(re.findall(begin, document)):
        which = "no" if not blocks else "one without an end among its"
        kind = next(iter(makers))
        raise UserError(f"the document has {which} '<!-- {kind}: NAME -->' ... '<!-- end -->' to fill")
    return filled


def read_document(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text") from None


def write_or_check(path: Path, text: str, new: str, source: Path, again: str, check: bool) -> None:
    """Write the new text of a document, or fail if it differs; `again` is the command that writes it."""
    if check and new != text:
        raise UserError(f"{path} does not say what {source} says; write it anew with: {again}")
    if not check:
        write_output(path, new.encode())
    print(f"{path}: {'true' if check else 'written'}")

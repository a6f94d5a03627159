"""Tables as LaTeX, with rules of the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence

SPECIAL = {letter: rf"\{letter}" for letter in "%_&#$" + "{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "<": r"$<$",
    ">": r"$>$",
}


def escape(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def latex_table(
    caption: str, columns: Sequence[str], groups: Sequence[tuple[str, Sequence[Sequence[str]]]]
) -> str:
    """Write a table. Rows, whose cells are LaTeX already, come in groups with a heading, which may be empty.

    The first column is on the left, the others on the right.
    """
    rows: list[str] = []
    for heading, group in groups:
        rows.append(r"\midrule")
        if heading:
            rows.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{\emph{{{escape(heading)}}}}} \\")
        rows += [" & ".join(cells) + r" \\" for cells in group]
    head = " & ".join(escape(column) for column in columns) + r" \\"
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{escape(caption)}}}"]
    tabular = [rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\toprule", head, *rows]
    return "\n".join([*begin, *tabular, r"\bottomrule", r"\end{tabular}", r"\end{table}"])

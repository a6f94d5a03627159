from fedactive.analysis.latex import escape, latex_table


def test_what_latex_would_take_for_a_command_is_escaped():
    assert escape("5% of a_b & {c} ± 1 \\ p < 2") == (
        r"5\% of a\_b \& \{c\} $\pm$ 1 \textbackslash{} p $<$ 2"
    )


def test_groups_of_rows_have_headings():
    text = latex_table("Title", ["name", "5%"], [("alpha 0.1", [["a", "1"]]), ("", [["b", "2"]])])
    assert r"\multicolumn{2}{l}{\emph{alpha 0.1}} \\" in text
    assert text.count(r"\midrule") == 2
    assert text.startswith(
        "\\begin{table}\n\\centering\n\\caption{Title}\n\\begin{tabular}{lr}\n\\toprule\nname & 5\\% \\\\"
    )

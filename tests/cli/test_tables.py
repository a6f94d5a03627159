"""Tables of the paper in the terminal: one for each dataset, without the rows that have no runs."""

from __future__ import annotations

import re
from pathlib import Path

from fedactive.cli.tables import print_paper_table
from fedactive.paper.precision import shared_precision
from fedactive.paper.reproduce import show
from fedactive.record.finding import runs_in

RESULTS = Path(__file__).parents[2] / "results"


def test_a_table_is_grouped_by_dataset_and_has_no_row_without_runs(capsys):
    runs = runs_in(RESULTS).runs
    table = show("algorithms", runs, **shared_precision(runs))
    made = table[table["seeds"] > 0]
    assert 0 < len(made) < len(table)
    print_paper_table(table, "FedProx and SCAFFOLD")
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "FedProx and SCAFFOLD"
    shown, dataset = [], ""
    for line in lines:
        words = line.split()
        if len(words) == 1 and words[0].isalnum():
            (dataset,) = words
        elif words and words[0] in ("fedprox", "scaffold"):
            shown.append((dataset, *words[:4]))
    columns = ["dataset", "algorithm", "strategy", "selector", "labelled_percent"]
    assert sorted(shown) == sorted(tuple(map(str, row)) for row in made[columns].itertuples(index=False))
    assert [row[0] for row in shown] == sorted((row[0] for row in shown), key=["cifar10", "svhn"].index)
    assert re.match(rf"\({len(table) - len(made)} rows have no runs", lines[-1])


def test_without_any_run_the_papers_numbers_are_shown(capsys):
    table = show("algorithms", [])
    print_paper_table(table, "FedProx and SCAFFOLD")
    shown = capsys.readouterr().out
    assert len(re.findall(r"^ (?:fedprox|scaffold) ", shown, re.MULTILINE)) == len(table)
    assert "rows have no runs" not in shown

"""The benchmark's document and the methods' cards say what the results say."""

from __future__ import annotations

import re

import pytest

from fedactive.benchmark.document import Filler, published_methods
from fedactive.benchmark.suite import find_suite
from fedactive.errors import UserError
from fedactive.record.archive import Archive
from support.documents import DOCS
from support.run_folders import runs_of


def block(words):
    return f"<!-- {words} -->\n<!-- end -->"


@pytest.fixture
def results(store, runs):
    """Two seeds of the yardstick: LoGo is two points above random in seed 1, three in seed 2."""
    for e in find_suite("yardstick").of(["random", "logo"], seeds=2).experiments(runs_dir=runs):
        lead = (e.strategy == "logo") * (1 + e.seed) / 100
        store(e, [0.3, *(0.3 + 0.03 * r + lead for r in range(1, 9))])
    return Filler(Archive(runs_of(runs)))


def test_a_suite_with_results(results):
    text = results.fill(block("suite: yardstick"))
    assert "Which method is best" in text
    assert "rho 20" in text
    assert "| logo | 1.00 |" in text
    # Random's seeds are equal; LoGo's have the variance 0.5 in eight of nine rounds: 1.96·√(8·0.5/18).
    assert "| logo | 45% | 59.68 | 56.50 ± 0.71 | 2 | **-3.18** | ±0.92 |" in text
    assert "| feal |" not in text
    assert re.search(r"No runs yet: .*feal", text)


def test_a_suite_without_results(results):
    text = results.fill(block("suite: medical"))
    assert "There are no results of this suite yet: `fedactive benchmark run medical` makes them." in text


def test_the_parts_of_a_card(results):
    text = results.fill("\n".join(block(f"{part}: kafal") for part in ("options", "needs", "results")))
    assert "| `--strategy` | ksas |" in text
    assert "| `--objective` | kcfu |" in text
    assert "the client's weights after its last local training" in text
    assert "nothing leaves a client for its query" in text
    assert "There are no results of this method yet." in text
    logo = results.fill(block("options: logo") + block("results: logo"))
    assert "| `--strategy-options micro=` | entropy |" in logo
    assert "| yardstick | logo | 1.00 of 2 |" in logo
    assert "- yardstick: logo, rank 1.0 of 2: undecided with 2 seeds against random." in logo
    assert "each client tells one number once in a run" in results.fill(block("needs: fairfal"))


def test_mistakes_name_the_block(results):
    with pytest.raises(UserError, match="<!-- suite: yardstik -->: suite: 'yardstik' was given"):
        results.fill(block("suite: yardstik"))
    with pytest.raises(UserError, match="<!-- results: lgo -->: method: 'lgo' was given"):
        results.fill(block("results: lgo"))


def test_every_published_method_has_a_card_and_is_in_the_document():
    index = (DOCS / "BENCHMARK.md").read_text(encoding="utf-8")
    for name in published_methods():
        card = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
        for part in ("options", "needs", "results"):
            assert f"<!-- {part}: {name} -->" in card
        assert f"](methods/{name}.md)" in index

"""Progress as plain lines: what a log file shows of a run."""

import io

from rich.console import Console

from fedactive.laboratory import progress
from fedactive.laboratory.progress import Bars, Lines, caption, make_bars
from support.evaluations import evaluation


def test_a_line_ends_each_al_round_and_long_ones_tell_in_between(small, capsys, monkeypatch):
    lines = Lines()
    lines.begin(small(strategy="entropy", selector="local", rounds=2, fl_rounds=2), fl_rounds_done=0)
    lines.on_evaluation(1, 0, evaluation([0.5]))
    lines.on_evaluation(1, 1, evaluation([0.625]))
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    lines.on_evaluation(2, 0, evaluation([0.75]))
    assert capsys.readouterr().out.splitlines() == [
        "entropy (local), seed 1: AL round 1/2, test accuracy 62.5%",
        "entropy (local), seed 1: AL round 2/2, FL round 1/2, test accuracy 75.0%",
    ]


def test_embedding_is_told_now_and_then(capsys, monkeypatch):
    lines = Lines()
    lines.on_embedding(512, 60_000)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    lines.on_embedding(1024, 60_000)
    assert capsys.readouterr().out == "embedding: 1,024 of 60,000 images\n"


def test_embedding_has_a_bar_of_its_own_which_ends(small, capsys):
    bars = Bars()
    for done in (3, 10):
        bars.on_embedding(done, 10)
    bars.end_embedding()
    assert "10/10" in capsys.readouterr().err
    bars.begin(small(), 0)
    bars.end()


def test_a_resumed_run_says_so(small, capsys):
    Lines().begin(small(), fl_rounds_done=7)
    assert capsys.readouterr().out == "logo, seed 1: resuming after 7 FL rounds\n"


def test_a_run_that_begins_after_the_shared_round_does_not_say_that_it_resumes(small, capsys):
    Lines().begin(small(fl_rounds=12), fl_rounds_done=12)
    assert capsys.readouterr().out == (
        "logo, seed 1: continuing from the shared AL round 1, after 12 FL rounds\n"
    )


def test_a_narrow_terminal_shows_counts_and_times(small):
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None)
    name = caption(small(strategy="entropy"))
    bars = make_bars([name], console)
    bars.add_task(name, total=1600, completed=230, note="AL 3/16  accuracy 61.2%")
    console.print(bars.get_renderable())
    shown = console.file.getvalue()
    for words in ("230/1600", "0:00:00", "-:--:--", "entropy", "seed 1", "AL 3/16", "61.2%"):
        assert words in shown


def test_captions_name_selector_and_options(small):
    assert caption(small(strategy="random")) == "random, seed 1"
    assert caption(small(strategy_options="micro=margin", seed=3)) == "logo (micro=margin), seed 3"

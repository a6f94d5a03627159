"""Progress as plain lines: what a log file shows of a run."""

from fedactive import progress
from fedactive.progress import Lines, label


def test_a_line_ends_each_al_round_and_long_ones_tell_in_between(small, capsys, monkeypatch):
    lines = Lines()
    lines.begin(small(strategy="entropy", selector="local", rounds=2, fl_rounds=2), fl_rounds_done=0)
    lines.trained(1, 0, 0.5)
    lines.trained(1, 1, 0.625)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    lines.trained(2, 0, 0.75)
    assert capsys.readouterr().out.splitlines() == [
        "entropy (local), seed 1: AL round 1/2, test accuracy 62.5%",
        "entropy (local), seed 1: AL round 2/2, FL round 1/2, test accuracy 75.0%",
    ]


def test_a_resumed_run_says_so(small, capsys):
    Lines().begin(small(), fl_rounds_done=7)
    assert capsys.readouterr().out == "logo, seed 1: resuming after 7 FL rounds\n"


def test_labels_name_selector_and_options(small):
    assert label(small(strategy="random")) == "random, seed 1"
    assert label(small(strategy_options="micro=margin", seed=3)) == "logo (micro=margin), seed 3"

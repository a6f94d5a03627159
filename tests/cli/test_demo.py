"""The demo's own experiments, made short; `make demo` runs them at full length."""

import dataclasses
import re

import pandas as pd

import fedactive.cli.demo


def test_the_demo_ends_with_a_table_a_picture_and_run_folders(tmp_path, monkeypatch, capsys):
    whole = fedactive.cli.demo.demo_experiments

    def shortened(folder):
        return [dataclasses.replace(e, rounds=2, fl_rounds=1, workers=1) for e in whole(folder)]

    monkeypatch.setattr(fedactive.cli.demo, "demo_experiments", shortened)
    fedactive.cli.demo.demo(tmp_path)
    text = capsys.readouterr().out
    for name in ("logo", "entropy (global)", "entropy (local)", "random"):
        assert re.search(rf"{re.escape(name)}\s+│\s+2 │\s+\d+\.\d ±\d", text)
    (folder,) = tmp_path.iterdir()
    assert (folder / "learning-curves.png").read_bytes().startswith(b"\x89PNG")
    runs = list(folder.glob("digits-*"))
    assert len(runs) == 8
    assert all((path / "done.json").exists() for path in runs)
    assert all(len(pd.read_parquet(path / "selections.parquet")) == 2 * 5 * 14 for path in runs)

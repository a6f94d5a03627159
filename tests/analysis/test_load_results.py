from dataclasses import replace

import numpy as np
import pytest

import fedactive
from fedactive.record.export import export
from support.run_folders import runs, store

__all__ = ["runs", "store"]


def test_folders_and_exported_results_are_the_same_table_with_all_that_was_recorded(
    store, runs, small, tmp_path
):
    store(
        replace(small(runs_dir=runs, fl_rounds=6), rounds=2),
        [0.5, 0.6],
        labels=[[[0, 0], [1, 1]], [[1, 1], [0, 0]]],
    )
    export([runs], tmp_path / "results")
    for folder in (runs, str(tmp_path / "results")):
        table = fedactive.load_results(folder)
        assert table["accuracy"].tolist() == pytest.approx([50, 60])
        assert table["al_round"].tolist() == [1, 2]
        assert {"seed", "strategy", "hardware", "software", "started", "finished", "seconds"} <= set(table)
        assert {"loss", "balanced_accuracy", "labelled", "labelled_percent"} <= set(table)
        local, everyone = table["local_emd"], table["global_emd"]
        assert local[0] > local[1]  # one class each, then two
        assert np.isclose(everyone[0], local[1])


def test_the_committed_results_are_readable_in_one_line():
    table = fedactive.load_results("results")
    old = table[table["software"].str.contains("0.1.0")]
    assert set(old["objective"]) == {"cross_entropy"}  # these runs are older than the setting
    assert {"", "efficientnet_lite0"} == set(table["backbone"])  # all files of the folder
    assert table[["dataset", "strategy", "seed", "accuracy", "hardware", "started"]].notna().all(axis=None)

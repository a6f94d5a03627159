"""The files of a run on their way: whatever happens, what has come is a run that can go on."""

from __future__ import annotations

import pytest

from fedactive.record.run_folder import first_round_file
from fedactive.sweep.parcel import files_of, read_parcel, write_parcel


def test_a_run_is_done_only_when_all_its_files_have_come(small):
    experiment = small()
    name = experiment.name
    (experiment.folder / "metrics.parquet" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_parcel(experiment.runs_dir, {f"{name}/done.json": b"{}", f"{name}/metrics.parquet": b"1"})
    assert not (experiment.folder / "done.json").exists()
    assert next(files_of(experiment)).name == "done.json"  # what is read after it is complete


def test_only_what_changed_is_sent_and_nothing_that_belongs_to_the_machine(small):
    experiment = small()
    experiment.folder.mkdir(parents=True)
    for name in (
        ".lock",
        ".checkpoint.pt.partial",
        "checkpoint.previous.pt",
        "experiment.toml",
        "checkpoint.pt",
    ):
        (experiment.folder / name).write_text(name)
    first_round_file(experiment).parent.mkdir()
    first_round_file(experiment).write_text("shared")
    known: dict[str, int] = {}
    shared = f".first-rounds/{first_round_file(experiment).name}"
    assert read_parcel(experiment, known) == {
        f"{experiment.name}/checkpoint.pt": b"checkpoint.pt",
        shared: b"shared",
    }
    assert read_parcel(experiment, known) == {}
    (experiment.folder / "checkpoint.pt").unlink()  # as in the middle of being replaced
    assert read_parcel(experiment, known) == {}
    (experiment.folder / "checkpoint.pt").write_text("new")
    assert read_parcel(experiment, known) == {f"{experiment.name}/checkpoint.pt": b"new"}

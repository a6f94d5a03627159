"""The files of one run, to be sent from one machine to another.

They are those of its folder, its log, and the AL round 1 that it shares with other runs. A parcel that is
read while the run goes on is good to resume from: every file is whole, and done.json comes with all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedactive.experiment import Experiment
from fedactive.files import write_atomically
from fedactive.record.run_folder import first_round_file

Parcel = dict[str, bytes]  # by the path in the runs folder

END = "done.json"
# The configuration names folders of the machine that it is on; one checkpoint is enough.
NOT_SENT = ("experiment.toml", "checkpoint.previous.pt")


def read_parcel(experiment: Experiment, known: dict[str, int]) -> Parcel:
    """Read the files of a run that have changed since they became `known`, which is brought up to date."""
    parcel: Parcel = {}
    for path in files_of(experiment):
        name = path.relative_to(experiment.runs_dir).as_posix()
        try:
            written = path.stat().st_mtime_ns
            if known.get(name) != written:
                parcel[name] = path.read_bytes()
                known[name] = written
        except FileNotFoundError:  # it is just being replaced: next time
            continue
    return parcel


def write_parcel(runs_dir: Path, parcel: Parcel) -> None:
    for name in sorted(parcel, key=lambda name: name.endswith(f"/{END}")):
        path = runs_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, parcel[name])


def files_of(experiment: Experiment) -> Iterator[Path]:
    """List the files of a run, the last one first: what is read after it was written before it."""
    folder = experiment.folder
    yield folder / END
    for path in sorted(folder.glob("[!.]*")):
        if path.name not in (END, *NOT_SENT):
            yield path
    yield first_round_file(experiment)
    yield log_file(experiment)


def log_file(experiment: Experiment) -> Path:
    return experiment.runs_dir / "logs" / f"{experiment.name}.log"

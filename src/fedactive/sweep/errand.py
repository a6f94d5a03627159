"""A run away from its runs folder: in a temporary one, whose files are fetched while it goes on."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

from fedactive.engines import EngineShelf
from fedactive.experiment import Experiment
from fedactive.registry import load_plugin
from fedactive.sweep.crew import attempt
from fedactive.sweep.parcel import Parcel, log_file, read_parcel, write_parcel
from fedactive.sweep.placement import VISIBLE

Plugins = list[tuple[str, bytes]]  # files with their names


class Errand:
    """One run on a worker of a cluster. `changed` is called by another thread while `run` is at work."""

    def __init__(self, config: str, parcel: Parcel, plugins: Plugins) -> None:
        """Unpack what is known of the run."""
        self.home = Path(tempfile.mkdtemp(prefix="fedactive-"))
        for number, (name, content) in enumerate(plugins):
            path = self.home / str(number) / name  # two files may have one name
            path.parent.mkdir()
            path.write_bytes(content)
            load_plugin(path)
        self.experiment = replace(Experiment.from_toml(config), runs_dir=self.home / "runs")
        write_parcel(self.experiment.runs_dir, parcel)
        self.known: dict[str, int] = {}
        read_parcel(self.experiment, self.known)  # what has just come need not go back

    def run(self) -> int:
        """Run it to its end, or to a failure that its log tells; return the exit code."""
        log = log_file(self.experiment)
        gpu = os.environ.get(VISIBLE)
        log.parent.mkdir(parents=True, exist_ok=True)
        where = f"on {socket.gethostname()}, process {os.getpid()}" + (f", GPU {gpu}" if gpu else "")
        with log.open("a") as lines:
            print(where, file=lines)
        config = log.with_suffix(".toml")
        config.write_text(self.experiment.to_toml(), encoding="utf-8")
        with EngineShelf() as engines:
            return attempt(config, engines)

    def changed(self) -> Parcel:
        """Return the files that have changed since the last call."""
        return read_parcel(self.experiment, self.known)

    def leave(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

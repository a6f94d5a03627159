"""Many experiments side by side: a grid of settings, run by worker processes, each in its own run folder.

On a CPU every run is a `fedactive run` of its own, on a GPU they are threads of one process (see `crew`). A
run that fails does not stop the others. If the grid is stopped or killed, its runs end too; started again, it
skips finished runs and resumes the others.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import Task, TaskID

from fedactive.children import environment_of_a_child
from fedactive.engines import choose_device, usable_cores
from fedactive.errors import ERROR, RunError, UserError
from fedactive.experiment import Experiment, setting_labels
from fedactive.laboratory.progress import caption, make_bars
from fedactive.laboratory.progress_file import progress_path, read_milestone
from fedactive.laboratory.run import Result
from fedactive.record.run_folder import first_round_file, is_finished
from fedactive.record.state import divergence
from fedactive.sweep.crew import Crew, Turn
from fedactive.sweep.lifeline import LIFELINE

ALL = "all runs, in FL rounds"
SECONDS_BETWEEN_POLLS = 0.2
SECONDS_BETWEEN_LINES = 60.0  # where the output is not a terminal


@dataclass
class Job:
    """One run of the grid and how it is going."""

    experiment: Experiment
    caption: str
    process: subprocess.Popen[bytes] | Turn | None = None
    log_begins: int = 0  # where this attempt's lines begin in its log, in bytes
    begun: float = 0.0
    apart: bool = False  # runs in its own process, because the shared one ended under it
    fl_rounds: int = 0  # done, when last read
    note: str = "starting"
    failed: bool = False
    bar: TaskID | None = None  # while it is running

    @property
    def log(self) -> Path:
        return self.experiment.runs_dir / "logs" / f"{self.experiment.name}.log"

    @property
    def done(self) -> bool:
        try:
            return is_finished(self.experiment)
        except (RunError, OSError):  # its folder is damaged or locked; the run itself will say so
            return False

    @property
    def total(self) -> int:
        return self.experiment.rounds * self.experiment.fl_rounds

    def last_line(self) -> str:
        log = self.log.read_bytes()[self.log_begins :] if self.log.exists() else b""
        lines = log.decode(errors="replace").strip().splitlines()
        reasons = [line for line in lines if line.startswith(ERROR)]  # another process may write here too
        return (reasons or lines or ["no output"])[-1]

    def update(self) -> None:
        """Read how far the run has got."""
        milestone = read_milestone(self.experiment)
        if milestone is not None:
            self.fl_rounds = milestone.fl_rounds
            if milestone.accuracy is not None:
                al_round = f"AL {milestone.al_round}/{self.experiment.rounds}"
                self.note = f"{al_round}  accuracy {milestone.accuracy:.1%}"


@dataclass
class Comparison:
    """Runs a grid, `jobs` runs at a time."""

    experiments: Sequence[Experiment]
    jobs: int
    plugins: Sequence[Path] = ()
    console: Console = field(default_factory=lambda: Console(stderr=True))
    # One per precision, because torch sets it for a whole process; and one for each run with `apart`.
    crews: dict[str, Crew] = field(default_factory=dict)
    lifeline: tuple[int, int] = field(default_factory=os.pipe)  # closes when this process ends

    def run(self) -> list[Job]:
        """Run the grid; failed runs are marked as such, only what stops the comparison itself is raised."""
        settings = setting_labels([vars(experiment) for experiment in self.experiments])
        everything = [
            Job(experiment, ", ".join(filter(None, [setting, caption(experiment)])))
            for experiment, setting in zip(self.experiments, settings, strict=True)
        ]
        waiting = [job for job in everything if not job.done]
        running: list[Job] = []
        skipped = len(everything) - len(waiting)
        where = f"; their logs: {waiting[0].log.parent}" if waiting else ""
        self.say(f"{len(everything)} runs, {skipped} done before, {self.jobs} at a time{where}")
        reported = time.monotonic()
        # One bar for each run that is going on, below one for all.
        with make_bars([ALL, *(job.caption for job in waiting)], self.console) as bars:
            overall = bars.add_task(ALL, total=sum(job.total for job in waiting), note="")
            try:
                while waiting or running:
                    while len(running) < self.jobs and (job := self.next_job(waiting, running)):
                        self.start(job)
                        job.bar = bars.add_task(job.caption, total=job.total, note=job.note)
                        running.append(job)
                    time.sleep(SECONDS_BETWEEN_POLLS)
                    for job in list(running):
                        assert job.process is not None
                        assert job.bar is not None
                        job.update()
                        bars.update(job.bar, completed=job.fl_rounds, note=job.note)
                        if job.process.poll() is not None:
                            bars.remove_task(job.bar)
                            running.remove(job)
                            if self.retry_apart(job):
                                waiting.insert(0, job)
                            else:
                                self.finish(job)
                    bars.update(overall, completed=sum(job.fl_rounds for job in everything))
                    if not self.console.is_terminal and time.monotonic() - reported >= SECONDS_BETWEEN_LINES:
                        reported = time.monotonic()
                        self.say(progress_line(bars.tasks[0]))
            finally:
                processes = [job.process for job in running if job.process is not None]
                for process in processes:  # interrupted: they resume from checkpoints next time
                    process.terminate()
                for process in processes:
                    process.wait()
                for crew in self.crews.values():
                    crew.dismiss()
                for end in self.lifeline:
                    os.close(end)
        return everything

    def next_job(self, waiting: list[Job], running: list[Job]) -> Job | None:
        """Take the next run, but not one whose shared AL round 1 another is just computing."""
        busy = {first_round_file(job.experiment) for job in running}
        for job in waiting:
            shared = first_round_file(job.experiment)
            if shared not in busy or shared.exists():
                waiting.remove(job)
                return job
        return None

    def start(self, job: Job) -> None:
        config = job.log.with_suffix(".toml")
        try:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            config.write_text(job.experiment.to_toml(), encoding="utf-8")
            job.log.touch()
            job.log_begins = job.log.stat().st_size
            progress_path(job.experiment).unlink(missing_ok=True)  # left by an earlier attempt
        except OSError as error:
            raise RunError(f"cannot write in {job.log.parent}: {error.strerror}") from None
        job.begun = time.monotonic()
        if choose_device(job.experiment.device).type == "cuda":
            job.process = self.crew(job).start(config)
            return
        command = [sys.executable, "-m", "fedactive", "run", "--config", str(config)]
        command += [word for plugin in self.plugins for word in ("--plugin", str(plugin))]
        threads = str(max(1, usable_cores() // self.jobs))
        with job.log.open("a") as log:
            job.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=self.lifeline[0],
                env=environment_of_a_child(
                    {LIFELINE: "1", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": threads}
                ),
            )

    def crew(self, job: Job) -> Crew:
        """Return the process that runs this job; start a new one if it has died."""
        which = f"{job.experiment.name}-apart" if job.apart else job.experiment.precision
        if which not in self.crews or not self.crews[which].alive:
            self.crews[which] = Crew(self.jobs, self.plugins, job.log.with_name(f"crew-{which}.log"))
        return self.crews[which]

    def retry_apart(self, job: Job) -> bool:
        """Give a run whose shared process died one more try in its own: another run may have killed it."""
        if not (isinstance(job.process, Turn) and job.process.abandoned):
            return False
        with job.log.open("a") as log:
            print(f"the process of this run died, see {job.process.crew.log}", file=log)
        first_time, job.apart = not job.apart, True
        return first_time

    def finish(self, job: Job) -> None:
        seconds = time.monotonic() - job.begun
        job.failed = not job.done
        job.fl_rounds = job.total
        what = f"failed, see {job.log}"
        if not job.failed:
            accuracy = json.loads((job.experiment.folder / "done.json").read_text())["final_accuracy"]
            job.note = f"accuracy {accuracy:.1%}"
            problem = divergence(Result(job.experiment.folder).metrics)
            what = f"done in {seconds:.0f} s" + (f"; {problem}" if problem else "")
        self.say(f"{job.caption}: {job.note}  {what}")

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, highlight=False, markup=False)  # paths may have brackets


def progress_line(task: Task) -> str:
    line = f"FL rounds {task.completed:.0f}/{task.total:.0f}"
    if task.time_remaining is None:
        return line
    minutes = math.ceil(task.time_remaining / 60)
    return f"{line}, about {f'{minutes} min' if minutes < 120 else f'{minutes / 60:.0f} h'} left"


def report_failures(jobs: Sequence[Job]) -> None:
    """Print the runs that failed, each with the last line of its log; then raise UserError."""
    failed = [job for job in jobs if job.failed]
    for job in failed:
        print(f"failed: {job.experiment.name}: {job.last_line()} (log: {job.log})", file=sys.stderr)
    if failed:
        raise UserError(f"{len(failed)} of {len(jobs)} runs failed; the same command retries them")

"""Many experiments side by side: a grid of settings, each run in its own folder.

A run that fails does not stop the others. If the grid is stopped or killed, its runs end too; started again,
it skips finished runs and resumes the others. Any number of grids may share a runs folder: each does what
nobody else does, waits for the rest, and takes over runs whose grid has died.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.progress import Progress, Task

from fedactive.captions import setting_labels
from fedactive.errors import InUseError, UserError
from fedactive.experiment import Experiment
from fedactive.laboratory.progress import caption, make_bars
from fedactive.record.run_folder import first_round_file
from fedactive.record.run_tables import RunTables
from fedactive.record.state import divergence
from fedactive.sweep.job import Attempt, Job

ALL = "all runs, in FL rounds"
SECONDS_BETWEEN_POLLS = 0.2
SECONDS_BETWEEN_LINES = 60.0  # where the output is not a terminal


class Workplace(Protocol):
    """Where runs are done."""

    jobs: int  # at a time
    retries: int  # of a run that was lost

    def equip(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        """Decide how many run at a time, and give each run its share of the machine."""
        ...

    def start(self, job: Job) -> Attempt: ...
    def dismiss(self) -> None: ...


@dataclass
class Comparison:
    """Runs a grid."""

    experiments: Sequence[Experiment]
    workplace: Workplace
    console: Console = field(default_factory=lambda: Console(stderr=True))
    waiting: list[Job] = field(default_factory=list)  # for their turn here, or for their end elsewhere
    running: list[Job] = field(default_factory=list)

    def run(self) -> list[Job]:
        """Run the grid; failed runs are marked as such, only what stops the comparison itself is raised."""
        experiments = self.workplace.equip(self.experiments)
        settings = setting_labels([vars(experiment) for experiment in experiments])
        everything = [
            Job(experiment, ", ".join(filter(None, [setting, caption(experiment)])))
            for experiment, setting in zip(experiments, settings, strict=True)
        ]
        self.waiting = [job for job in everything if not job.done]
        todo = list(self.waiting)
        where = f"; their logs: {todo[0].log.parent}" if todo else ""
        skipped = len(everything) - len(todo)
        self.say(f"{len(everything)} runs, {skipped} done before, {self.workplace.jobs} at a time{where}")
        reported, idle = time.monotonic(), False
        # One bar for each run that is going on, below one for all.
        with make_bars([ALL, *(job.caption for job in todo)], self.console) as bars:
            overall = bars.add_task(ALL, total=sum(job.total for job in todo), note="")
            try:
                while self.waiting or self.running:
                    self.look_elsewhere()
                    while len(self.running) < self.workplace.jobs and (job := self.next_job()):
                        job.attempt = self.workplace.start(job)
                        self.running.append(job)
                    if self.waiting and not self.running and not idle:
                        self.say_what_is_elsewhere()
                    idle = not self.running
                    time.sleep(SECONDS_BETWEEN_POLLS)
                    self.look_here()
                    for job in todo:
                        draw(job, bars)
                    bars.update(overall, completed=sum(job.fl_rounds for job in todo))
                    if not self.console.is_terminal and time.monotonic() - reported >= SECONDS_BETWEEN_LINES:
                        reported = time.monotonic()
                        self.say(progress_line(bars.tasks[0], sum(bool(job.elsewhere) for job in todo)))
            finally:
                attempts = [job.attempt for job in self.running if job.attempt is not None]
                for attempt in attempts:  # interrupted: they resume from checkpoints next time
                    attempt.terminate()
                for attempt in attempts:
                    attempt.wait()
                self.workplace.dismiss()
                for job in todo:
                    job.release()
        return everything

    def next_job(self) -> Job | None:
        """Claim the next run, but not one whose shared AL round 1 is just being computed by another."""
        going = [*self.running, *(job for job in self.waiting if job.elsewhere)]
        busy = {first_round_file(job.experiment) for job in going}
        for job in [job for job in self.waiting if not job.elsewhere]:
            shared = first_round_file(job.experiment)
            if shared in busy and not shared.exists():
                continue
            if not job.take():
                busy.add(shared)
                continue
            self.waiting.remove(job)
            if not job.done:
                return job
            self.finish(job)  # somebody else did it since
        return None

    def look_elsewhere(self) -> None:
        """See to runs that somebody else does: they may be done, or nobody's again."""
        for job in [job for job in self.waiting if job.elsewhere and job.due]:
            job.look()
            if job.done:
                job.elsewhere = ""
                self.waiting.remove(job)
                self.finish(job)

    def look_here(self) -> None:
        """See to the runs of this grid."""
        for job in list(self.running):
            assert job.attempt is not None
            job.update()
            if (code := job.attempt.poll()) is None:
                continue
            self.running.remove(job)
            if self.may_try_again(job):
                job.release()
                self.waiting.insert(0, job)
            elif code == InUseError.exit_code and not job.done:  # somebody was faster
                job.release()
                self.waiting.insert(0, job)
                job.begun = None
                job.look()
            else:
                self.finish(job)
            job.attempt = None

    def may_try_again(self, job: Job) -> bool:
        """Decide whether a run whose process or worker died has another try: it need not be its fault."""
        if not (job.attempt and job.attempt.lost):
            return False
        with job.log.open("a") as log:
            print(job.attempt.lost, file=log)
        job.losses += 1
        return job.losses <= self.workplace.retries

    def finish(self, job: Job) -> None:
        job.failed = not job.done
        job.release()
        job.fl_rounds = job.total
        what = f"failed, see {job.log}"
        if not job.failed:
            accuracy = json.loads((job.experiment.folder / "done.json").read_text())["final_accuracy"]
            job.note = f"accuracy {accuracy:.1%}"
            problem = divergence(RunTables(job.experiment.folder).metrics)
            how = "elsewhere" if job.begun is None else f"in {time.monotonic() - job.begun:.0f} s"
            what = f"done {how}" + (f"; {problem}" if problem else "")
        self.say(f"{job.caption}: {job.note}  {what}")

    def say_what_is_elsewhere(self) -> None:
        """Name the runs that this grid waits for, now that it has nothing else to do."""
        for job in self.waiting:
            if job.elsewhere:
                job.update()
                far = f"{job.fl_rounds}/{job.total} FL rounds"
                self.say(f"{job.caption}: {far}  running elsewhere ({job.elsewhere})")
        self.say("waiting for these; Ctrl-C leaves, and they go on")

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, highlight=False, markup=False)  # paths may have brackets


def draw(job: Job, bars: Progress) -> None:
    """Show a bar of the run while it is going on, here or elsewhere."""
    if job.attempt is None and not job.elsewhere:
        if job.bar is not None:
            bars.remove_task(job.bar)
        job.bar = None
        return
    if job.bar is None:
        job.bar = bars.add_task(job.caption, total=job.total, note="")
    where = f"  {job.elsewhere}" if job.elsewhere else ""
    bars.update(job.bar, completed=job.fl_rounds, note=f"{job.note}{where}")


def progress_line(task: Task, elsewhere: int = 0) -> str:
    line = f"FL rounds {task.completed:.0f}/{task.total:.0f}"
    if task.time_remaining is not None:
        minutes = math.ceil(task.time_remaining / 60)
        line += f", about {f'{minutes} min' if minutes < 120 else f'{minutes / 60:.0f} h'} left"
    return line + (f", runs elsewhere: {elsewhere}" if elsewhere else "")


def report_failures(jobs: Sequence[Job]) -> None:
    """Print the runs that failed, each with the last line of its log; then raise UserError."""
    failed = [job for job in jobs if job.failed]
    for job in failed:
        print(f"failed: {job.experiment.name}: {job.last_line()} (log: {job.log})", file=sys.stderr)
    if failed:
        raise UserError(f"{len(failed)} of {len(jobs)} runs failed; the same command retries them")

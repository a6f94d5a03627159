"""Several runs at a time on one GPU: threads of one process.

Processes take turns on a GPU; threads of one process share it. Where one run's kernels leave parts of it
idle, another's fill them, and what one run has compiled and recorded serves the next.

    python -m fedactive.sweep.crew THREADS [PLUGIN ...]

reads the paths of configuration files from standard input, one per line. It writes a log beside each file and
answers on standard output with the path and the exit code that `fedactive run` would have. `Crew` is the
other end of these pipes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import torch

from fedactive.children import environment_of_a_child
from fedactive.engines import EngineShelf, own_stream
from fedactive.errors import UserError, user_message
from fedactive.experiment import Experiment
from fedactive.laboratory.progress import Lines
from fedactive.laboratory.run import run_with
from fedactive.registry import load_plugin

# --- in the process of the runs


def main(threads: int, plugins: Sequence[Path]) -> None:
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a plugin prints must not look like an answer
    for plugin in plugins:
        load_plugin(plugin)
    if torch.cuda.is_available():
        # PyTorch loads CUDA's linear algebra when it is first used, which fails in several threads at once.
        torch.linalg.inv(torch.ones(1, 1, device="cuda"))
    files: SimpleQueue[str] = SimpleQueue()
    for _ in range(threads):  # they end with the process, which ends when its input closes
        Thread(target=serve, args=(files, answers), daemon=True).start()
    for line in sys.stdin:
        files.put(line.strip())


def serve(files: SimpleQueue[str], answers: int) -> None:
    """Run one experiment after another, on a CUDA stream of this thread."""
    with own_stream() if torch.cuda.is_available() else nullcontext(), EngineShelf() as engines:
        while True:
            file = files.get()
            code = attempt(Path(file), engines)
            # In one write: other threads answer too.
            os.write(answers, f"{file}\t{code}\n".encode())
            if code and gpu_is_lost():
                os._exit(1)  # this run, the others and the next get a new process


def attempt(config: Path, engines: EngineShelf) -> int:
    """Run what the file says, with a log beside it; return the exit code, 0 for a run that is done."""
    with config.with_suffix(".log").open("a") as log:
        try:
            run_with(engines, Experiment.from_toml(config.read_text(encoding="utf-8")), Lines(log))
        except Exception as error:
            print(user_message(error) or traceback.format_exc(), file=log)
            return error.exit_code if isinstance(error, UserError) else 1
    return 0


def gpu_is_lost() -> bool:
    """Return whether the process can no longer use its GPU, as after some CUDA errors."""
    try:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


# --- in the process that starts the runs


class Crew:
    """A process that runs experiments in threads or copies of itself, seen from the one that started it."""

    def __init__(
        self, program: Sequence[object], log: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        """Start a module of Python with its arguments; `variables` are of its environment."""
        command = [sys.executable, "-m", *map(str, program)]
        with log.open("a") as errors:  # messages that belong to no particular run
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment_of_a_child(variables or {}),
            )
        self.log = log
        self.answers: dict[str, int] = {}
        self.listener = Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as answers:
            for line in answers:
                file, answer = line.rstrip("\n").split("\t")
                self.answers[file] = int(answer)

    def start(self, config: Path) -> Turn:
        assert self.process.stdin is not None
        self.answers.pop(str(config), None)
        with suppress(BrokenPipeError):  # it has just ended; `Turn.poll` will report that
            self.process.stdin.write(f"{config}\n")
            self.process.stdin.flush()
        return Turn(self, str(config))

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def dismiss(self) -> None:
        """Close its input, so that the process ends, and wait for that."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has already ended
            self.process.stdin.close()
        self.process.wait()


@dataclass(frozen=True)
class Turn:
    """One run of the crew, with the interface of a process."""

    crew: Crew
    config: str

    def poll(self) -> int | None:
        ended = self.crew.process.poll()  # with it all its runs end
        if ended is not None:
            self.crew.listener.join()  # its last answers may still be on their way
        return self.crew.answers.get(self.config, ended)

    @property
    def lost(self) -> str:
        """How the process died before this run answered, perhaps through another run's fault."""
        if self.poll() is None or self.config in self.crew.answers:
            return ""
        return f"the process of this run died, see {self.crew.log}"

    def terminate(self) -> None:
        self.crew.process.terminate()

    def wait(self) -> int:
        return self.crew.process.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), list(map(Path, sys.argv[2:])))

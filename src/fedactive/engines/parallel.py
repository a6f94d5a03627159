"""Train clients side by side on the CPU: one worker process per core, one thread each.

One client's step is too small to keep several cores busy, so this is faster than threads inside the step, and
it gives exactly the sequential engine's result.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, final

import torch
from torch import Tensor

from fedactive.children import environment_of_a_child
from fedactive.data.dataset import Dataset
from fedactive.data.pixel_map import file_of
from fedactive.engines.device import warn_once
from fedactive.engines.engine import Engine
from fedactive.engines.sequential import train_in_turn
from fedactive.engines.worker import receive, send
from fedactive.errors import RunError
from fedactive.federated.local_sgd import LocalJob, LocalResult, Recipe
from fedactive.models import MODELS, ModelSpec
from fedactive.registry import AUGMENTATIONS, split_names

# Activations are freed and allocated again at every step. By default glibc returns blocks of this size to the
# system each time, and a quarter of the time goes into mapping fresh pages. With these variables workers keep
# them, in huge pages where the system has them. Without glibc the variables have no effect.
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
# It looks for garbage again once all is imported.
WORKER = "import gc; gc.disable(); from fedactive.engines.worker import main; "


@final
class ParallelEngine(Engine):
    name = "parallel"

    def __init__(self, spec: ModelSpec, dataset: Dataset, recipe: Recipe, workers: int) -> None:
        super().__init__(spec, dataset, recipe, torch.device("cpu"))
        self.workers: list[Connection] = []
        theirs: list[Connection] = []
        for _ in range(workers):
            ours, its = Pipe()
            self.workers.append(ours)
            theirs.append(its)
        pipes = [pipe.fileno() for pipe in theirs]
        with open_file_of(dataset.train_inputs) as file:
            program = f"{WORKER}main({pipes}, {file.fileno()})"
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                pass_fds=[*pipes, file.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C reaches only the main process, which then closes the pipes
                env=environment_of_a_child(KEEP_MEMORY),
            )
        inputs, plugins = dataset.train_inputs, plugin_files(spec, recipe)
        for ours, its in zip(self.workers, theirs, strict=True):
            its.close()
            ours.send((inputs.shape, inputs.dtype, dataset.mean, dataset.std, spec, recipe, plugins))

    def train(self, jobs: Sequence[LocalJob]) -> list[LocalResult]:
        for name in {j.objective.name for j in jobs if type(j.objective).__module__ == "__main__"}:
            warn_once(f"clients are trained one after another: workers cannot import objective {name}")
            return train_in_turn(self, jobs)
        results: dict[int, LocalResult] = {}
        # The longest jobs first, so that no worker still has a long one when the others are done.
        waiting = sorted(range(len(jobs)), key=lambda i: len(jobs[i].samples))
        busy: dict[Connection, int] = {}
        free = list(self.workers)
        try:
            while waiting or busy:
                while waiting and free:
                    pipe = free.pop()
                    busy[pipe] = waiting.pop()
                    send(pipe, jobs[busy[pipe]])
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    answer = receive(ready)
                    if isinstance(answer, str):
                        raise RuntimeError(f"a worker failed:\n{answer}")
                    results[busy.pop(ready)] = answer
                    free.append(ready)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise RunError(
                "a worker process died, most likely for lack of memory; "
                "start the same command again to resume, with a smaller --workers"
            ) from None
        return [results[i] for i in range(len(jobs))]

    def close(self) -> None:
        if not self.workers:
            return
        for pipe in self.workers:
            pipe.close()
        self.workers = []
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(self.process.pid, signal.SIGTERM)  # results of current jobs are not needed
        self.process.wait()


def open_file_of(inputs: Tensor) -> IO[bytes]:
    """Open the file from which the samples are mapped; write one for others."""
    if (path := file_of(inputs)) is not None:
        return path.open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 - without a name: nothing is left, however we end
    inputs.numpy().tofile(file)
    return file


def plugin_files(spec: ModelSpec, recipe: Recipe) -> list[Path]:
    """List the files of plugins that a worker needs."""
    found = [MODELS.file_of(spec.name), *map(AUGMENTATIONS.file_of, split_names(recipe.augment))]
    return [file for file in found if file is not None]

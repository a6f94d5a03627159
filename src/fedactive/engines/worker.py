"""The worker processes of the parallel engine.

Each reads jobs from a pipe and writes results to it until the pipe closes, so it also ends when the main
process is killed. They are a program of their own, not multiprocessing children: those import the user's
script a second time, which breaks every script without a main guard.
"""

from __future__ import annotations

import contextlib
import gc
import io
import mmap
import os
import pickle
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from fedactive.data.preprocess import Normalise
from fedactive.engines.engine import prepare_model
from fedactive.federated.local_sgd import train
from fedactive.federated.objective import Objective
from fedactive.registry import OBJECTIVES, PLUGIN_MODULE, load_plugin


class Packer(pickle.Pickler):
    """Pickles tensors as numpy arrays: torch would send them by shared memory, an open file per tensor.

    A plugin's objective is sent as its file, which a worker does not know otherwise.
    """

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.from_numpy, (value.numpy(),)
        if isinstance(value, Objective) and type(value).__module__.startswith(PLUGIN_MODULE):
            return restore_objective, (OBJECTIVES.file_of(value.name), value.name, vars(value))
        return NotImplemented


def restore_objective(plugin: Path, name: str, options: dict[str, Any]) -> Any:
    if name not in OBJECTIVES:
        load_plugin(plugin)
    return OBJECTIVES[name](**options)


def send(pipe: Connection, content: object) -> None:
    """Send a job, its result or the traceback of an error."""
    buffer = io.BytesIO()
    Packer(buffer, pickle.HIGHEST_PROTOCOL).dump(content)
    pipe.send_bytes(buffer.getbuffer())


def receive(pipe: Connection) -> Any:
    return pickle.loads(pipe.recv_bytes())


def serve(pipe: Connection, inputs_file: int) -> None:
    shape, dtype, mean, std, spec, recipe, plugins = pipe.recv()
    for plugin in plugins:
        load_plugin(plugin)
    # Mapped, not read: all workers share one copy of the samples in the page cache.
    mapped = mmap.mmap(inputs_file, 0, access=mmap.ACCESS_COPY)
    inputs = torch.frombuffer(mapped, dtype=dtype).view(shape)
    normalise = Normalise(shape[1:], mean, std, inputs.device)
    model = prepare_model(spec, inputs.device)
    while True:
        job = receive(pipe)
        try:
            send(pipe, train(model, inputs, normalise, recipe, job))
        except Exception:
            send(pipe, traceback.format_exc())


def main(pipes: Sequence[int], inputs_file: int) -> None:
    """Run one worker for each pipe; all arguments are file descriptors.

    This process serves the first pipe and its copies the others: loading PyTorch takes a second, a copy none.
    """
    torch.set_num_threads(1)
    gc.freeze()  # what is never looked at is never copied
    gc.enable()  # it was off while all was imported
    mine = next((pipe for pipe in pipes[1:] if os.fork() == 0), pipes[0])
    for pipe in pipes:
        if pipe != mine:
            os.close(pipe)  # or it would stay open when its own worker dies
    # The pipe closes when the main process ends or closes the engine, perhaps in the middle of a message.
    with contextlib.suppress(EOFError, OSError):
        serve(Connection(mine), inputs_file)

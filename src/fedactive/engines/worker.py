"""A worker process of the parallel engine.

It reads jobs from a pipe and writes results to it until the pipe closes, so it also ends when the main
process is killed. It is a program of its own, not a multiprocessing child: those import the user's script a
second time, which breaks every script without a main guard.
"""

from __future__ import annotations

import contextlib
import mmap
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from fedactive.data.preprocess import Normalise
from fedactive.engines.engine import prepare_model
from fedactive.federated.local_sgd import LocalJob, LocalResult, train
from fedactive.federated.weights import Weights
from fedactive.registry import load_plugin


def pack(weights: Weights) -> dict[str, Any]:
    """Turn weights into numpy arrays: torch would send them by shared memory, an open file per tensor."""
    return {name: value.numpy() for name, value in weights.items()}


def unpack(arrays: dict[str, Any]) -> Weights:
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def pack_job(job: LocalJob) -> dict[str, Any]:
    packed = dict(vars(job))
    packed.update(start=pack(job.start), drift=pack(job.drift) if job.drift else None)
    packed.update(samples=job.samples.numpy(), labels=job.labels.numpy())
    return packed


def unpack_job(packed: dict[str, Any]) -> LocalJob:
    job = LocalJob(**packed)
    return replace(
        job,
        start=unpack(packed["start"]),
        drift=unpack(packed["drift"]) if packed["drift"] else None,
        samples=torch.from_numpy(packed["samples"]),
        labels=torch.from_numpy(packed["labels"]),
    )


def unpack_result(packed: tuple[dict[str, Any], int]) -> LocalResult:
    return LocalResult(unpack(packed[0]), packed[1])


def serve(pipe: Connection, images_file: int) -> None:
    shape, mean, std, spec, recipe, plugin = pipe.recv()
    if plugin is not None:
        load_plugin(plugin)
    # Mapped, not read: all workers share one copy of the images in the page cache.
    mapped = mmap.mmap(images_file, 0, access=mmap.ACCESS_COPY)
    images = torch.frombuffer(mapped, dtype=torch.uint8).view(shape)
    normalise = Normalise(mean, std, images.device)
    model = prepare_model(spec, images.device)
    while True:
        packed = pipe.recv()
        try:
            result = train(model, images, normalise, recipe, unpack_job(packed))
            pipe.send((pack(result.weights), result.steps))
        except Exception:
            pipe.send(traceback.format_exc())


def main(pipe: int, images_file: int) -> None:
    """Run a worker; both arguments are file descriptors."""
    torch.set_num_threads(1)
    # The pipe closes when the main process ends or closes the engine, perhaps in the middle of a message.
    with contextlib.suppress(EOFError, OSError):
        serve(Connection(pipe), images_file)

"""Run a model on samples, in evaluation mode: by batches whose maps fit the device, on all CPU cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from fedactive.data.preprocess import Normalise
from fedactive.models.classifier import Classifier
from fedactive.models.spec import seed_generators

# Pixels at a time. On a GPU: enough to keep it busy. On a CPU: so few that their maps stay in the cache of a
# core from one layer to the next, which is more than twice as fast as large batches.
PIXELS = {"cpu": 64 * 32 * 32, "cuda": 2048 * 32 * 32}
MOST_SAMPLES = 2048
CHUNK = 2**26  # bytes of inputs that are copied at a time

Outputs = tuple[Tensor, Tensor]  # logits, embeddings


def infer(model: Classifier, inputs: Tensor, normalise: Normalise, precision: str) -> Outputs:
    """Compute logits and embeddings of a dataset's samples, without flips."""
    model.eval()

    @torch.inference_mode()
    def run(part: Tensor) -> Outputs:
        with autocast(inputs.device, precision):
            y, z = model(normalise(part))
        return y.float(), z.float()

    parts = inputs.split(inference_batch(inputs)) if len(inputs) else (inputs,)
    threads = torch.get_num_threads() if inputs.device.type == "cpu" else 1
    outputs = map_on_threads(run, parts, threads) if min(threads, len(parts)) > 1 else map(run, parts)
    logits, embeddings = zip(*outputs, strict=True)
    return torch.cat(logits), torch.cat(embeddings)


@torch.inference_mode()
def infer_dropping(
    model: Classifier, inputs: Tensor, normalise: Normalise, precision: str, seed: int
) -> Outputs:
    """Compute what `infer` does with dropout as in training; BatchNorm uses its running statistics."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    outputs = []
    with seed_generators(seed, inputs.device), autocast(inputs.device, precision):
        for part in inputs.split(inference_batch(inputs)) if len(inputs) else (inputs,):
            y, z = model(normalise(part))
            outputs.append((y.float(), z.float()))
    logits, embeddings = zip(*outputs, strict=True)
    return torch.cat(logits), torch.cat(embeddings)


def map_on_threads(run: Callable[[Tensor], Outputs], parts: Sequence[Tensor], threads: int) -> list[Outputs]:
    """Run each part on one thread of its own: together on all threads, the cores would wait for each other.

    The numbers are the same either way.
    """
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(run, parts))
    finally:
        torch.set_num_threads(threads)  # threads that begin later take over what was set last, by any thread


def chunks(inputs: Tensor, samples: Tensor) -> tuple[Tensor, ...]:
    """Split samples so that copies of their inputs stay small on a CPU: all of them may not fit in memory.

    Chunks are whole batches of `infer`, so its numbers are the same.
    """
    if inputs.is_cuda:
        return (samples,)
    batch, size = inference_batch(inputs), max(1, math.prod(inputs.shape[1:]) * inputs.element_size())
    return torch.split(samples, max(1, CHUNK // (size * batch)) * batch)


def inference_batch(inputs: Tensor) -> int:
    """Return how many of these samples to take at a time: larger ones need more memory each."""
    pixels = math.prod(inputs.shape[2:])  # 1 for features
    return max(1, min(MOST_SAMPLES, PIXELS[inputs.device.type] // pixels))


def autocast(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")

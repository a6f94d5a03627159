"""The batched engine's plan: what every client does at each step, computed before the first step.

Clients go through their epochs together. One that has fewer batches than the others pauses for the rest of
the epoch, and the short last batch of an epoch has empty places. So every step has the same shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.federated.batches import mixed_pairs, shuffled_together, steps_per_epoch
from fedactive.federated.local_sgd import LocalJob, Recipe


def plan_steps(jobs: Sequence[LocalJob], width: int, recipe: Recipe, device: torch.device) -> Tensor:
    """Plan these jobs; the clients after them, up to `width`, do nothing.

    In the result, [epoch, step, client] is a `Row`. One step is contiguous in memory. If the jobs' objective
    needs mixed images, as many places for these follow those of the batch.
    """
    rows = plan_labelled(jobs, width, recipe, device)
    return add_pairs(rows, jobs, recipe) if jobs[0].objective.needs_mixed else rows


def plan_labelled(jobs: Sequence[LocalJob], width: int, recipe: Recipe, device: torch.device) -> Tensor:
    epochs = max(job.epochs for job in jobs)
    counts = [len(job.samples) for job in jobs]
    longest, batch = max(counts), recipe.batch_size
    steps = steps_per_epoch(longest, batch)
    # Filled on the host and sent in one copy each: on a GPU the number of operations is what costs.
    held = np.zeros((2, len(jobs), 1, longest), dtype=np.int64)  # codes and targets
    over = np.zeros((len(jobs), epochs, 1), dtype=np.bool_)
    rates = np.zeros((epochs, steps, width))
    for k, job in enumerate(jobs):
        held[0, k, 0, : counts[k]] = 2 * job.samples.cpu().numpy()
        held[1, k, 0, : counts[k]] = job.labels.cpu().numpy()
        over[k, job.epochs :] = True
        made = steps_per_epoch(counts[k], batch)
        rates[: job.epochs, :made, k] = np.reshape(job.rates, (job.epochs, made))

    order, keys = shuffled_together([job.shuffle for job in jobs], epochs, counts, device)
    absent = (order < 0) | torch.from_numpy(over).to(device)
    values = torch.from_numpy(held).to(device).expand(-1, -1, epochs, -1)
    values = values.gather(3, order.clamp_min(0).expand(2, -1, -1, -1))
    if recipe.augment == "flip":
        values[0] += keys.lt(0)
    if keyed := has_keys(recipe):
        values = torch.cat([values, keys[None]])
    values = F.pad(values.masked_fill_(absent, -1), (0, steps * batch - longest), value=-1)

    rows = torch.full((epochs, steps, width, Row.length(recipe)), -1, device=device)
    columns = rows[:, :, : len(jobs), 1:].unflatten(3, (2 + keyed, batch))
    columns.copy_(values.view(2 + keyed, len(jobs), epochs, steps, batch).permute(2, 3, 1, 0, 4))
    rows[..., 0] = torch.from_numpy(rates).view(torch.long).to(device)
    return rows


def has_keys(recipe: Recipe) -> bool:
    """Return whether augmentations need keys; to mirror takes one bit, which the code of a sample holds."""
    return recipe.augment not in ("none", "flip")


def add_pairs(rows: Tensor, jobs: Sequence[LocalJob], recipe: Recipe) -> Tensor:
    """Add a pair of pool images for each labelled one: x as the code, x' and β packed into the target."""
    epochs, steps, width, _ = rows.shape
    batch = recipe.batch_size
    pairs = torch.full((2, epochs, width, steps * batch), -1, device=rows.device)
    for k, job in enumerate(jobs):
        if len(job.pool):
            count, pool = len(job.samples), job.pool.to(rows.device)
            first, second, share = mixed_pairs(job.shuffle, job.epochs, count, len(pool), rows.device)
            pairs[0, : job.epochs, k, :count] = 2 * pool[first]
            pairs[1, : job.epochs, k, :count] = pack_pairs(pool[second], share)
    mixed = list(pairs.unflatten(3, (steps, batch)).transpose(2, 3))
    rates, *labelled = rows.split([1, *[batch] * (rows.shape[-1] // batch)], dim=-1)
    mixed += [torch.zeros_like(keys) for keys in labelled[2:]]  # mixed images are not augmented
    both = (part for parts in zip(labelled, mixed, strict=True) for part in parts)
    return torch.cat([rates, *both], dim=-1)


def pack_pairs(second: Tensor, share: Tensor) -> Tensor:
    """Pack positions, which are below 2^31, and the bits of float32 numbers into one int64 tensor."""
    return second << 32 | share.view(torch.int32).long()  # a share is not negative, so its first bit is 0


def unpack_pairs(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Return positions and shares; 0 and 0 at empty places."""
    packed = packed.clamp_min(0)
    return packed >> 32, (packed & 0xFFFFFFFF).int().view(torch.float32)


@dataclass(frozen=True)
class Row:
    """One step of the plan, for all clients: views of it, made when they are asked for.

    Integers and rates share one int64 tensor, so that a step begins with a single small copy.
    """

    values: Tensor  # (clients, Row.length(recipe))
    recipe: Recipe

    @staticmethod
    def length(recipe: Recipe) -> int:
        return 1 + (3 if has_keys(recipe) else 2) * recipe.batch_size

    @property
    def rates(self) -> Tensor:
        """Return the learning rates (clients,)."""
        return self.values[:, :1].contiguous().view(torch.float64)[:, 0].float()

    @property
    def code(self) -> Tensor:
        """Return 2·sample, + 1 if mirrored, as (clients, batch); -1: an empty place."""
        return self.column(0)

    @property
    def targets(self) -> Tensor:
        """Return the classes (clients, batch)."""
        return self.column(1)

    @property
    def keys(self) -> Tensor:
        """Return (clients, batch) integers from which augmentations draw; below 0 if mirrored."""
        return self.column(2) if has_keys(self.recipe) else -(self.code & 1)

    def column(self, number: int) -> Tensor:
        batch = self.recipe.batch_size
        return self.values[:, 1 + number * batch : 1 + (number + 1) * batch]

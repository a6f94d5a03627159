"""What all clients do at each step, worked out before the first one: the batched engine's timetable.

Clients go through their epochs together. One that has fewer batches than the others sits the rest of the
epoch out, and the short last batch of an epoch has empty places. So every step has the same shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from fedactive.federated.batches import shuffled_together, steps_per_epoch
from fedactive.federated.local_sgd import LocalJob, Recipe


@dataclass(frozen=True)
class Plan:
    """`rows[epoch, step, client]` is a `Row`: one whole step is one contiguous piece of memory."""

    rows: Tensor

    @staticmethod
    def of(jobs: Sequence[LocalJob], width: int, recipe: Recipe, device: torch.device) -> Plan:
        """The plan of these jobs, followed by clients that do nothing up to `width`."""
        epochs = max(job.epochs for job in jobs)
        counts = torch.tensor([len(job.samples) for job in jobs])
        seeds = torch.tensor([job.shuffle for job in jobs])
        order, flips = shuffled_together(seeds.to(device), epochs, counts.to(device))
        longest, batch = order.shape[2], recipe.batch_size
        samples = pad_sequence([job.samples for job in jobs], batch_first=True).to(device)
        labels = pad_sequence([job.labels for job in jobs], batch_first=True).to(device)
        rates = np.zeros((epochs, steps_per_epoch(longest, batch), width))
        for k, job in enumerate(jobs):
            made = steps_per_epoch(len(job.samples), batch)
            rates[: job.epochs, :made, k] = np.reshape(job.rates, (job.epochs, made))
        own_epochs = torch.tensor([job.epochs for job in jobs], device=device)
        over = torch.arange(epochs, device=device) >= own_epochs[:, None]
        absent = (order < 0) | over[:, :, None]
        place = order.clamp_min(0).flatten(1)
        code = samples.gather(1, place).view_as(order) * 2
        if recipe.flip:
            code += flips
        targets = labels.gather(1, place).view_as(order)

        rows = torch.full((*rates.shape, Row.length(batch)), -1, device=device)
        padding = (0, rates.shape[1] * batch - longest)
        for column, values in ((0, code), (batch, targets)):
            filled = F.pad(values.masked_fill_(absent, -1), padding, value=-1)
            filled = filled.view(len(jobs), epochs, -1, batch).permute(1, 2, 0, 3)
            rows[:, :, : len(jobs), column : column + batch] = filled
        rows[..., -1] = torch.from_numpy(rates).view(torch.long).to(device)
        return Plan(rows)


@dataclass(frozen=True)
class Row:
    """Views of one step's piece of the plan, for each client.

    Whole numbers and rates share one int64 tensor, so that a step begins with a single small copy.
    """

    code: Tensor  # (clients, batch): 2·sample, + 1 if mirrored; -1: an empty place
    targets: Tensor  # (clients, batch)
    rates: Tensor  # (clients,)

    @staticmethod
    def length(batch: int) -> int:
        return 2 * batch + 1

    @staticmethod
    def of(values: Tensor) -> Row:
        batch = values.shape[1] // 2
        rates = values[:, -1:].contiguous().view(torch.float64)[:, 0].float()
        return Row(values[:, :batch], values[:, batch : 2 * batch], rates)

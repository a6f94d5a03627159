"""Ridge regression of the classes on features: clients send sums, the server solves, once.

With a constant 1 appended to the features x, for the bias b, and Y the classes as 0 and 1:

    client    XᵀX, XᵀY
    server    (XᵀX + λI) [W b]ᵀ = XᵀY        summed over clients; the bias has no penalty

That is exactly the solution for all samples in one place. The row of XᵀY of the constant counts the classes,
so the server also knows their means m_c and weighs classes equally without another message: each mean counts
as n/C samples instead of n_c, and the deviations from the means stay as they are, of all classes together,

    XᵀX - Σ_c n_c·m_c·m_cᵀ + n/C·Σ_c m_c·m_cᵀ,    n/C·m_c       over the C classes that have samples

(To weigh the deviations, too, clients would have to send XᵀX of each class.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.federated.algorithm import Server, State, Update, register
from fedactive.federated.closed_form import ClosedForm
from fedactive.options import option

SUMS, SQUARES, CLASSES = "sums", "squares", "classes"


@final
@register
@dataclass(frozen=True)
class Ridge(ClosedForm):
    name = "ridge"
    summary = "ridge regression of features, from sums that clients send once: the solution of all samples"
    paper = "Hoerl & Kennard, 1970"

    penalty: float = option(30.0, "λ of the squared weights, for features of length 10", low=1e-6, high=1e9)
    class_weights: bool = option(True, "do all classes count the same, however many labels they have?")

    def add_up(self, embeddings: Tensor, labels: Tensor, classes: int) -> State:
        # In double precision: the solution shall not depend on who has which samples.
        x = F.pad(embeddings.double(), (0, 1), value=1.0)
        y = F.one_hot(labels, classes).to(x)
        row, column = torch.tril_indices(x.shape[1], x.shape[1], device=x.device)  # half of it says all
        return {SUMS: {SQUARES: (x.T @ x)[row, column], CLASSES: y.T @ x}}

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        sums = total(updates, CLASSES)
        xx, xy = symmetric(total(updates, SQUARES), sums.shape[1]), sums.T
        if self.class_weights:
            counts = sums[:, -1]
            means = xy / counts.clamp_min(1)
            equal = counts.sum() / (counts > 0).sum() * (counts > 0)
            xx = xx + (means * (equal - counts)) @ means.T
            xy = means * equal
        solution = solve(xx, xy, self.penalty).to(server.weights["head.weight"].dtype)
        head = {"head.weight": solution[:-1].T.contiguous(), "head.bias": solution[-1]}
        return replace(server, weights=server.weights | head)


def total(updates: Sequence[Update], name: str) -> Tensor:
    return torch.stack([weight_of(update) * update.state[SUMS][name] for update in updates]).sum(0)


def weight_of(update: Update) -> float:
    """Return by what to multiply a client's sums, so that it counts as the samples it is known to have."""
    counted = update.state[SUMS][CLASSES][:, -1].sum().item()
    return update.samples / counted if counted > 0 else 0.0


def symmetric(lower: Tensor, size: int) -> Tensor:
    """Return the symmetric matrix with this lower triangle."""
    row, column = torch.tril_indices(size, size, device=lower.device)
    matrix = lower.new_empty(size, size)
    matrix[row, column] = matrix[column, row] = lower
    return matrix


def solve(xx: Tensor, xy: Tensor, penalty: float) -> Tensor:
    """Solve for weights and, in the last row, biases; NaN for sums that no samples have."""
    penalties = torch.full_like(xx[0], penalty)
    penalties[-1] = 0.0
    factor, failed = torch.linalg.cholesky_ex(xx + penalties.diag())
    return torch.where(failed == 0, torch.cholesky_solve(xy, factor), torch.nan)

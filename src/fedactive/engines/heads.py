"""Train many clients' linear heads in step: the sequential engine's numbers, bit for bit, in less time.

A step of one head on a few samples is small: PyTorch's bookkeeping takes longer than the arithmetic. So
the gradient of the cross-entropy is written out,

    ∂ℓ/∂W = Dᵀx,  ∂ℓ/∂b = Σ D        D = (softmax(xWᵀ + b) - onehot(y)) / n

and what sums over no samples is one operation for all clients. Products stay one for each client, so that
nothing depends on who trains beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.federated.batches import shuffled, steps_per_epoch
from fedactive.federated.inference import inference_batch
from fedactive.federated.local_sgd import LocalJob, LocalResult, Recipe
from fedactive.federated.objectives.cross_entropy import CrossEntropy
from fedactive.federated.weights import Weights
from fedactive.models import ModelSpec
from fedactive.models.architectures.linear import Linear

WEIGHT, BIAS = "head.weight", "head.bias"


def are_heads(spec: ModelSpec, recipe: Recipe) -> bool:
    """Return whether clients train linear heads on features, in float32."""
    return spec.name == Linear.name and len(spec.input_shape) == 1 and recipe.precision != "bf16"


def is_plain(job: LocalJob) -> bool:
    """Return whether a job minimises the cross-entropy, and asks for nothing but the last weights."""
    return isinstance(job.objective, CrossEntropy) and not (job.patience or job.each_epoch)


def train_heads(features: Tensor, recipe: Recipe, jobs: Sequence[LocalJob]) -> list[LocalResult]:
    """Run the jobs; those with as many samples and the same plan go in step."""
    results = [LocalResult(job.start, 0) for job in jobs]
    groups: dict[object, list[int]] = {}
    for k, job in enumerate(jobs):
        plan = (len(job.samples), job.epochs, job.rates, job.proximal, bool(job.drift), job.stop_accuracy)
        if len(job.samples):
            groups.setdefault(plan, []).append(k)
    for members in groups.values():
        trained = train_in_step(features, recipe, [jobs[k] for k in members])
        for k, result in zip(members, trained, strict=True):
            results[k] = result
    return results


@torch.no_grad()
def train_in_step(features: Tensor, recipe: Recipe, jobs: Sequence[LocalJob]) -> list[LocalResult]:
    plan, results = jobs[0], dict[int, LocalResult]()
    count, batches = len(plan.samples), steps_per_epoch(len(plan.samples), recipe.batch_size)
    here = list(range(len(jobs)))  # jobs that go on, as rows of all tensors below
    x = [features[job.samples.to(features.device)] for job in jobs]
    y = torch.stack([job.labels for job in jobs]).to(features.device)
    order = torch.stack([shuffled(job.shuffle, job.epochs, count, features.device) for job in jobs])
    weights = {name: torch.stack([job.start[name] for job in jobs]) for name in (WEIGHT, BIAS)}
    start = {name: w.clone() for name, w in weights.items()}
    drift = {
        name: torch.stack([job.drift[name] for job in jobs if job.drift]) for name in weights if plan.drift
    }
    velocity = {name: torch.zeros_like(w) for name, w in weights.items()}

    for epoch in range(plan.epochs):
        for batch in range(batches):
            cut = slice(batch * recipe.batch_size, (batch + 1) * recipe.batch_size)
            for name, g in gradients(weights, x, y, order[:, epoch, cut]).items():
                w = weights[name]
                g.add_(w, alpha=recipe.weight_decay)
                if plan.proximal:
                    g += plan.proximal * (w - start[name])
                if drift:
                    g += drift[name]
                v = velocity[name].mul_(recipe.momentum).add_(g)
                w.sub_(v, alpha=plan.rates[epoch * batches + batch])
        if plan.stop_accuracy is None:
            continue
        enough = [accuracy(weights, row, x[row], y[row]) >= plan.stop_accuracy for row in range(len(here))]
        if any(enough):
            steps = (epoch + 1) * batches
            for row in [row for row, stops in enumerate(enough) if stops]:
                results[here[row]] = LocalResult(copy_of(weights, row), steps)
            rows = [row for row, stops in enumerate(enough) if not stops]
            here, x, y, order = [here[row] for row in rows], [x[row] for row in rows], y[rows], order[rows]
            for tensors in (weights, start, drift, velocity):
                tensors.update({name: values[rows] for name, values in tensors.items()})
            if not here:
                break
    steps = plan.epochs * batches
    results |= {k: LocalResult(copy_of(weights, row), steps) for row, k in enumerate(here)}
    return [results[k] for k in range(len(jobs))]


def gradients(weights: Weights, x: Sequence[Tensor], y: Tensor, chosen: Tensor) -> Weights:
    """Compute ∇ℓ of each client on its `chosen` samples, by the operations that autograd would use."""
    w, b = weights[WEIGHT], weights[BIAS]
    batch = [own[rows] for own, rows in zip(x, chosen, strict=True)]
    logits = torch.stack([torch.addmm(b[k], own, w[k].T) for k, own in enumerate(batch)])
    log_p = F.log_softmax(logits, dim=2)
    of_log_p = torch.zeros_like(log_p)
    of_log_p.scatter_(2, y.gather(1, chosen)[:, :, None], -1 / chosen.shape[1])
    d = torch._log_softmax_backward_data(of_log_p, log_p, 2, log_p.dtype)
    of_weight = torch.stack([d[k].T.mm(own) for k, own in enumerate(batch)])
    return {WEIGHT: of_weight, BIAS: torch.stack([own.sum(0) for own in d])}


def accuracy(weights: Weights, row: int, x: Tensor, y: Tensor) -> float:
    """Measure a client's accuracy on its own samples."""
    w, b = weights[WEIGHT][row], weights[BIAS][row]
    logits = torch.cat([F.linear(part, w, b) for part in x.split(inference_batch(x))])
    right: float = (logits.argmax(1) == y).sum().item()
    return right / len(y)  # in double precision, as the limit is


def copy_of(weights: Weights, row: int) -> Weights:
    return {name: w[row].clone() for name, w in weights.items()}

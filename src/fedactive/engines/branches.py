"""The gradients of many clients for any model: one compiled pass, run for all clients side by side.

On a GPU one client's pass is too small to fill the device. Weights are inputs of the compiled pass, so it is
compiled once. It is recorded for every client as a branch of one CUDA graph, and the branches overlap.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, final

import torch
from torch import Tensor
from torch.func import functional_call

from fedactive.engines.lessons import Told
from fedactive.engines.stack import Stack
from fedactive.federated.inference import autocast
from fedactive.federated.weights import Weights
from fedactive.models.classifier import BatchNorm

STREAMS = 16  # more branches than this at a time gain nothing, and each needs memory for its activations


@final
class BranchStack(Stack):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.names = list(self.layout.places)
        self.norms = [name for name, part in self.model.named_modules() if isinstance(part, BatchNorm)]
        self.after = torch.zeros_like(self.statistics)
        self.factors = [name for name, (_, shape) in self.layout.places.items() if len(shape) > 1]
        self.summands = [name for name in self.names if name not in self.factors]
        self.leaves = [self.leaves_of(k) for k in range(self.width)]
        self.told = [Told(*(rows[k] for rows in self.lessons.told)) for k in range(self.width)]
        self.gradient_views = [self.layout.views(row) for row in self.gradient]
        cuda = self.parameters.is_cuda
        self.loss = compile_loss(self.mean_loss) if cuda else self.mean_loss
        self.streams = [torch.cuda.Stream() for _ in range(min(self.width, STREAMS))] if cuda else []

    def leaves_of(self, k: int) -> Weights:
        """Return the tensors that client k's loss is a function of."""
        exact, rounded = self.layout.views(self.parameters[k]), self.layout.views(self.rounded[k])
        parameters = {name: (rounded if name in self.factors else exact)[name] for name in self.names}
        statistics = self.buffer_layout.views(self.after[k])
        return (
            self.weights[k]
            | {name: value.detach().requires_grad_() for name, value in parameters.items()}
            | {name_after(name): value for name, value in statistics.items()}
        )

    def mean_loss(
        self, weights: Weights, images: Tensor, targets: Tensor, present: Tensor, told: Told
    ) -> Tensor:
        state = weights | {f"{name}.present": present for name in self.norms}
        with autocast(images.device, self.recipe.precision):
            logits, _ = functional_call(self.model, state, (images,))
        return self.lessons.loss(logits.float(), targets, present, told)

    def learn(self) -> None:
        self.gradients()
        if self.parameters.is_cuda:
            from fedactive.engines import step_kernels

            step_kernels.descend(self, 0, self.layout.length)()
        else:
            self.descend()

    def gradients(self) -> None:
        self.model.train()
        self.after.copy_(self.statistics)  # for those that do not change
        images = self.batch.movedim(-1, 2)
        home = torch.cuda.current_stream() if self.streams else None
        for k, leaves in enumerate(self.leaves):
            branch = self.streams[k % len(self.streams)] if self.streams else None
            if branch and home and k < len(self.streams):
                branch.wait_stream(home)
            with torch.cuda.stream(branch) if branch else nullcontext():
                loss = self.loss(leaves, images[k], self.targets[k], self.present[k], self.told[k])
                gradients = torch.autograd.grad(loss, [leaves[name] for name in self.names])
                found = dict(zip(self.names, gradients, strict=True))
                for names in (self.factors, self.summands):  # one copy for all tensors of one type
                    torch._foreach_copy_(
                        [self.gradient_views[k][name] for name in names], [found[name] for name in names]
                    )
        for branch in self.streams:
            assert home is not None
            home.wait_stream(branch)
        self.statistics.copy_(self.after)


def compile_loss(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")  # `Engine` decides where they are used
    # Every stack compiles its own version. After 8 versions PyTorch would run the function uncompiled.
    torch._dynamo.config.recompile_limit = 1024
    return torch.compile(loss)


def name_after(name: str) -> str:
    """Name the buffer in which a BatchNorm leaves the next value of its running mean or variance."""
    return name.replace("running_mean", "mean_after").replace("running_var", "variance_after")

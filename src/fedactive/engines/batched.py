"""Train all clients at once on a GPU. Data, batches and early stopping stay there; the host replays graphs.

Memory for K clients of P parameters and batches of B, beside the dataset, in bytes:

    K·P·4·(3 to 5)  +  min(K, 16)·B·(what the backward pass keeps of one image)·2      any model
    K·P·4·(3 to 5)  +  K·B·(the maps of one image and their gradients)                 the layers' kernels

that is weights, momentum and gradient (and start and drift for FedProx and SCAFFOLD), and the activations of
those clients whose passes overlap. For cnn4 and 32x32 images in bfloat16 it is 13 MB per client at B = 64.
If not all clients fit, they are trained in several groups.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from fedactive.data.dataset import Dataset
from fedactive.engines.branches import STREAMS, BranchStack
from fedactive.engines.engine import Engine
from fedactive.engines.kernel_stack import KernelStack
from fedactive.engines.layout import RowLayout
from fedactive.engines.lessons import places
from fedactive.engines.plan import plan_steps
from fedactive.engines.stack import Stack
from fedactive.errors import RunError, UserError
from fedactive.federated.local_sgd import LocalJob, LocalResult, Recipe
from fedactive.federated.objective import Objective
from fedactive.federated.weights import Weights
from fedactive.models import Classifier, ModelSpec
from fedactive.models.contract import why_not_batched

if TYPE_CHECKING:  # it needs Triton, which comes with torch for CUDA
    from fedactive.engines.kernel_inference import Inference


class NotBatchedError(UserError):
    """A model that only the sequential engine trains as it is meant."""


WIDEST = 128  # a graph of more clients takes longer to record and is no faster


@final
class BatchedEngine(Engine):
    name = "batched"

    def __init__(self, spec: ModelSpec, dataset: Dataset, recipe: Recipe, device: torch.device) -> None:
        super().__init__(spec, dataset, recipe, device)
        if reason := why_not_batched(self.model, spec.input_shape):
            raise NotBatchedError(f"model {spec.name} cannot be trained for many clients at once: {reason}")
        self.stacks: dict[tuple[int, tuple[bool, bool], Objective], Stack] = {}
        self.kind = stack_kind(self.model, self.dataset.train_inputs, recipe)
        self.inference: Inference | None = None
        self.widest = WIDEST
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            # Kernels count all clients' parameters in 32 bits.
            countable = (2**31 - 1) // RowLayout.of(self.model.named_parameters()).length
            self.widest = max(1, min(WIDEST, countable, self.count_fitting(free // 2)))

    def train(self, jobs: Sequence[LocalJob]) -> list[LocalResult]:
        results = [LocalResult(job.start, 0) for job in jobs]
        # The largest first: clients of similar size wait for each other for fewer steps.
        waiting = sorted(
            (k for k, job in enumerate(jobs) if len(job.samples)), key=lambda k: -len(jobs[k].samples)
        )
        while waiting:
            now = self.next_together(waiting, jobs)
            try:
                trained = self.train_together([jobs[k] for k in now])
            except torch.cuda.OutOfMemoryError:
                self.halve_width(len(now))
                continue
            for k, result in zip(now, trained, strict=True):
                results[k] = result
            waiting = [k for k in waiting if k not in now]
        return results

    def next_together(self, waiting: Sequence[int], jobs: Sequence[LocalJob]) -> list[int]:
        """Return the next clients that share an objective and a teacher, and fit into memory together."""
        objective, teacher = jobs[waiting[0]].objective, jobs[waiting[0]].teacher
        alike = [k for k in waiting if jobs[k].objective == objective and jobs[k].teacher is teacher]
        return alike[: max(1, self.widest // (2 if objective.needs_mixed else 1))]

    def train_together(self, jobs: Sequence[LocalJob]) -> list[LocalResult]:
        terms = (any(job.proximal for job in jobs), any(job.drift for job in jobs))
        stack = self.stack(len(jobs), terms, jobs[0].objective)
        plan = plan_steps(jobs, stack.width, self.recipe, self.device)
        stack.load(jobs)
        watched, epochs = any(job.each_epoch for job in jobs), []
        early = stack.stoppable or stack.own_losses
        for part in plan if watched or early else [plan.flatten(0, 1)]:
            stack.follow(part)
            if watched:
                epochs.append(stack.copies(len(jobs)))
            if early and stack.stop():
                break
        return stack.results(jobs, epochs)

    def infer(self, weights: Weights, pixels: Tensor) -> tuple[Tensor, Tensor]:
        if not issubclass(self.kind, KernelStack) or len(pixels) == 0:
            return super().infer(weights, pixels)
        if self.inference is None:
            from fedactive.engines.kernel_inference import Inference

            self.inference = Inference(
                self.kind, self.model, self.dataset.train_inputs, self.normalise, self.recipe
            )
        return self.inference(weights, pixels)

    def stack(self, width: int, terms: tuple[bool, bool], objective: Objective) -> Stack:
        """Return a stack of at least this width; reuse a wider one, because recording takes seconds."""
        alike = [key for key in self.stacks if key[1:] == (terms, objective)]
        fitting = [key for key in alike if width <= key[0] <= 2 * width]
        key = min(fitting, default=(width, terms, objective), key=lambda key: key[0])
        if key not in self.stacks:
            images = self.dataset.train_inputs
            kind = stack_kind(self.model, images, places(self.recipe, objective))
            self.stacks[key] = kind(self.model, images, self.normalise, self.recipe, width, terms, objective)
        return self.stacks[key]

    def count_fitting(self, memory: int) -> int:
        """Compute how many clients fit into this many bytes, by the formulas above."""
        weights = RowLayout.of(self.model.named_parameters()).length * 4 * 5
        if issubclass(self.kind, KernelStack):
            shape, batch = self.spec.input_shape, self.recipe.batch_size
            fitting = memory // (weights + batch * self.kind.bytes_per_image(self.model, shape, self.recipe))
            return min(fitting, self.kind.most_images(self.model, shape) // batch)
        activations = 2 * self.recipe.batch_size * saved_bytes(self.spec)
        at_once = min(STREAMS, max(1, memory // (weights + activations)))
        return (memory - at_once * activations) // weights

    def halve_width(self, width: int) -> None:
        """After running out of memory, train fewer clients at a time from now on."""
        self.close()
        torch.cuda.empty_cache()
        if width == 1:
            raise RunError("the GPU's memory is too small to train a single client; use --device cpu")
        self.widest = width // 2
        warnings.warn(
            f"the GPU's memory is too small for {width} clients at once; going on with {self.widest}",
            stacklevel=2,
        )

    def close(self) -> None:
        self.stacks.clear()
        self.inference = None
        gc.collect()  # a stack refers to itself, so only the collector frees its memory


def stack_kind(model: Classifier, images: Tensor, recipe: Recipe) -> type[Stack]:
    """Choose the stack with kernels for layers where they support the model."""
    if images.is_cuda:
        from fedactive.engines.layers.stack import LayerStack

        if LayerStack.supports(model, images, recipe):
            return LayerStack
    return BranchStack


def saved_bytes(spec: ModelSpec) -> int:
    """Measure the bytes that the backward pass keeps of one image, in float32."""
    model = spec.build()
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        seen[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    batch = torch.zeros(2, *spec.input_shape)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model(batch)
    weights = {value.data_ptr() for value in model.state_dict().values()}
    return sum(size for address, size in seen.items() if address not in weights) // len(batch)

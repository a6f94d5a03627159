"""The weights of many clients side by side in memory, and one SGD step of all of them.

A client is a row of `parameters` and one of `statistics` (those of BatchNorm). So what is the same for every
parameter (the update, loading, saving) is one operation on one tensor, for all clients and layers.

The gradients are computed by the two kinds of stack: `BranchStack` for any model, `LayerStack` by kernels of
its own for models made of known layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

import torch
from torch import Tensor
from torch.func import functional_call

from fedactive.data.preprocess import Normalise
from fedactive.engines.layout import RowLayout
from fedactive.engines.lessons import Lessons, places
from fedactive.engines.plan import Row, has_keys
from fedactive.federated.augmentation import make_augmentation
from fedactive.federated.inference import autocast, inference_batch
from fedactive.federated.local_sgd import LocalJob, LocalResult, Recipe
from fedactive.federated.objective import Objective
from fedactive.federated.objectives.cross_entropy import CrossEntropy
from fedactive.federated.own_loss import OwnLoss
from fedactive.federated.weights import Weights
from fedactive.models.classifier import BatchNorm, Classifier

CROSS_ENTROPY = CrossEntropy()
COMPILING = Lock()  # the compilers are not safe for several threads at once


class Stack(ABC):
    """Abstract; `width` clients that train in step. `terms`: do they have a proximal term, and a drift?"""

    def __init__(
        self,
        model: Classifier,
        images: Tensor,
        normalise: Normalise,
        recipe: Recipe,
        width: int,
        terms: tuple[bool, bool],
        objective: Objective = CROSS_ENTROPY,
    ) -> None:
        self.model, self.images, self.normalise = model, images, normalise
        self.lessons = Lessons(objective, model, images, normalise, recipe, width)
        recipe = places(recipe, objective)
        self.recipe, self.width = recipe, width
        self.augment = make_augmentation(recipe.augment)
        device = images.device
        statistics = [
            (f"{name}.{what}", getattr(part, what))
            for name, part in model.named_modules()
            if isinstance(part, BatchNorm)
            for what in ("running_mean", "running_var")
        ]
        self.layout = self.lay_out(model)
        self.buffer_layout = RowLayout.of(statistics)
        self.parameters = torch.zeros(width, self.layout.length, device=device)
        self.statistics = torch.zeros(width, self.buffer_layout.length, device=device)
        # What products read: autocast would round the weights in every client's pass, here it is done once.
        low = recipe.precision == "bf16"
        self.rounded = self.parameters.to(torch.bfloat16) if low else self.parameters
        self.velocity = torch.zeros_like(self.parameters)
        self.gradient = torch.zeros_like(self.parameters)
        proximal, drift = terms
        self.start = torch.zeros_like(self.parameters) if proximal else None
        self.drift = torch.zeros_like(self.parameters) if drift else None
        self.mu = torch.zeros((), device=device)
        self.buffers = {  # all others, such as the number of batches that a BatchNorm has seen
            name: torch.zeros(width, *value.shape, dtype=value.dtype, device=device)
            for name, value in model.named_buffers()
            if name not in self.buffer_layout.places
        }
        self.rows = torch.full((self.steps_at_once(), width, Row.length(recipe)), -1, device=device)
        self.row = self.rows[0]
        self.active = torch.zeros(width, dtype=torch.bool, device=device)
        self.steps = torch.zeros(width, dtype=torch.long, device=device)
        self.order = list(model.state_dict())  # of names, which results keep
        self.weights = self.as_weights(self.parameters, self.statistics, self.buffers)
        self.stoppable: dict[int, LocalJob] = {}  # jobs that may end early, by their accuracy
        self.own_losses: dict[int, OwnLoss] = {}  # and those that may by their loss
        self.enough = torch.full((width,), torch.inf, device=device)  # the accuracy at which they do
        self.run_steps: dict[int, Callable[[], None]] = {}  # by their number; made by the first `load`
        _, channels, *sides = images.shape
        rows = (width, recipe.batch_size)
        self.batch = torch.zeros(*rows, *sides, channels, dtype=self.dtype(), device=device)
        self.targets = torch.zeros(rows, dtype=torch.long, device=device)
        self.present = torch.zeros(rows, dtype=torch.bool, device=device)

    def lay_out(self, model: Classifier) -> RowLayout:
        """Choose the order of the parameters in memory."""
        return RowLayout.of(model.named_parameters())

    def dtype(self) -> torch.dtype:
        """Return the type of the batch's images."""
        return torch.float32

    @abstractmethod
    def learn(self) -> None:
        """Write each client's ∇ℓ(w) on its `batch` to `gradient`, descend, and update BatchNorm's statistics.

        `batch` is (clients, batch, height, breadth, channels), or (clients, batch, d) of features; `targets`
        and `present` are (clients, batch).
        """

    # --- a job's beginning and end

    def load(self, jobs: Sequence[LocalJob]) -> None:
        """Begin these jobs; the rest of the stack's width does nothing."""
        if not self.run_steps:
            # No client is active yet, so recording changes no weights.
            for count in {1, len(self.rows)}:
                self.run_steps[count] = record(partial(self.make_steps, count), self.images.device)
        # Nearly always all clients start from the same weights, which are then copied here only once.
        self.begin(0, jobs[0].start)
        for rows in (self.parameters, self.statistics, *self.buffers.values()):
            rows[1 : len(jobs)] = rows[0]
        for k, job in enumerate(jobs):
            if job.start is not jobs[0].start:
                self.begin(k, job.start)
        self.round()
        if self.drift is not None:
            for k, job in enumerate(jobs):
                self.layout.pack(job.drift or {}, self.drift[k].zero_())
        if self.start is not None:
            self.start.copy_(self.parameters)
        self.own_losses.clear()
        self.stoppable = {k: job for k, job in enumerate(jobs) if job.stop_accuracy is not None}
        if self.stoppable:
            ends = [torch.inf if job.stop_accuracy is None else job.stop_accuracy for job in jobs]
            self.enough[: len(jobs)] = torch.tensor(ends, device=self.enough.device)
        self.lessons.load(jobs)
        for k, job in enumerate(jobs):
            if job.patience:
                taught = self.lessons.teach(job.samples) if job.objective.needs_global else None
                self.own_losses[k] = OwnLoss(job, self.own_logits(k, job), taught)
        self.mu.fill_(jobs[0].proximal)
        self.velocity.zero_()
        self.steps.zero_()
        self.active.copy_(torch.arange(self.width, device=self.active.device) < len(jobs))

    def begin(self, k: int, start: Weights) -> None:
        self.layout.pack(start, self.parameters[k])
        self.buffer_layout.pack(start, self.statistics[k])
        for name, buffer in self.buffers.items():
            buffer[k] = start[name]

    def round(self) -> None:
        """Round all weights anew; `descend` does it for those that it changes."""
        if self.rounded is not self.parameters:
            self.rounded.copy_(self.parameters)

    def results(
        self, jobs: Sequence[LocalJob], epochs: Sequence[Sequence[Weights]] = ()
    ) -> list[LocalResult]:
        """Return each job's end; `epochs` are copies of all clients after each epoch."""
        # Reading the steps waits for the device; it is needed only where clients may stop early.
        early = self.stoppable or self.own_losses
        steps = self.steps.tolist() if early else [len(job.rates) for job in jobs]
        results = []
        for k, (job, weights) in enumerate(zip(jobs, self.copies(len(jobs)), strict=True)):
            made = steps[k] * job.epochs // len(job.rates)
            after = tuple(copies[k] for copies in epochs[:made]) if job.each_epoch else ()
            results.append(LocalResult(weights, steps[k], after))
        return results

    def copies(self, count: int) -> list[Weights]:
        """Copy the weights of the first `count` clients as they are now."""
        return self.as_weights(
            self.parameters[:count].clone(),
            self.statistics[:count].clone(),
            {name: buffer[:count].clone() for name, buffer in self.buffers.items()},
        )

    def as_weights(self, parameters: Tensor, statistics: Tensor, buffers: Weights) -> list[Weights]:
        """Make views of each client's tensors, by name, in the model's own order."""
        views = self.layout.views(parameters) | self.buffer_layout.views(statistics) | buffers
        of_clients = zip(*(views[name].unbind(0) for name in self.order), strict=True)
        return [dict(zip(self.order, tensors, strict=True)) for tensors in of_clients]

    # --- steps

    def follow(self, plan: Tensor) -> None:
        """Make the steps of this plan, each for every client."""
        while len(plan):
            count = len(self.rows) if len(plan) >= len(self.rows) else 1
            self.rows[:count].copy_(plan[:count])
            self.run_steps[count]()
            plan = plan[count:]

    def steps_at_once(self) -> int:
        """Return how many steps are recorded as one, beside single ones."""
        return 1

    def make_steps(self, count: int) -> None:
        """Make the first `count` steps in `rows`: one, or as many as `steps_at_once` says."""
        assert count == 1
        self.fetch()
        self.lessons.prepare(self.batch, Row(self.row, self.recipe).code, self.targets)
        self.learn()

    def fetch(self, varied: bool = True) -> None:
        """Collect this step's images, `varied` by augmentations or as they are."""
        in_torch = varied and has_keys(self.recipe)  # the kernel mirrors, and nothing else
        if self.parameters.is_cuda and self.normalise.of_images and not in_torch:
            from fedactive.engines import step_kernels

            step_kernels.gather(self)()
        else:
            self.gather(varied)

    def gather(self, varied: bool = True) -> None:
        """Collect this step's images, varied and normalised, their classes, and which places are filled."""
        row = Row(self.row, self.recipe)
        self.present.copy_((row.code >= 0) & self.active[:, None])
        self.targets.copy_(row.targets.clamp_min(0))
        code = row.code.clamp_min(0).flatten()
        images = self.images[code >> 1]
        if varied and self.normalise.of_images:
            images = self.vary(images.unflatten(0, row.code.shape), row.keys).flatten(0, 1)
        images = self.normalise(images)
        self.batch.copy_(images.movedim(1, -1).view_as(self.batch))

    def vary(self, images: Tensor, keys: Tensor) -> Tensor:
        """Augment the labelled images; mixed ones, whose places follow, stay as they are."""
        count = self.lessons.batch
        labelled = images[:, :count]
        varied = self.augment(labelled.flatten(0, 1), keys[:, :count].flatten()).view_as(labelled)
        return torch.cat([varied, images[:, count:]], dim=1)

    def descend(self) -> None:
        """Apply g = ∇ℓ(w) + λ·w + μ·(w - w_start) + drift,  v = m·v + g,  w = w - η·v where clients move."""
        rates, moving = Row(self.row, self.recipe).rates, self.present.any(1, keepdim=True)
        w = self.parameters
        g = self.gradient + self.recipe.weight_decay * w
        if self.start is not None:
            g = g + self.mu * (w - self.start)
        if self.drift is not None:
            g = g + self.drift
        v = self.recipe.momentum * self.velocity + g
        self.velocity.copy_(torch.where(moving, v, self.velocity))
        w.copy_(torch.where(moving, w - rates[:, None] * v, w))
        self.steps.add_(moving[:, 0])
        self.round()

    # --- early stop

    @torch.no_grad()
    def stop(self) -> bool:
        """Stop clients that have learnt their own samples well enough; return whether all have."""
        if self.stoppable:
            self.active &= self.own_accuracy() < self.enough
        for k, own_loss in self.own_losses.items():
            self.active[k] &= ~own_loss.is_over(self.own_logits(k, own_loss.job))
        return not bool(self.active.any())

    def own_accuracy(self) -> Tensor:
        """Measure the accuracy of each client that may stop early, on its own samples."""
        accuracy = torch.zeros_like(self.enough)
        for k, job in self.stoppable.items():
            right = (self.own_logits(k, job).argmax(1) == job.labels.to(accuracy.device)).sum()
            accuracy[k] = right / len(job.labels)  # on a GPU mean() of 99 in 100 may be below 0.99
        return accuracy

    def own_logits(self, k: int, job: LocalJob) -> Tensor:
        """Run client k's model on its own samples, not mirrored."""
        self.model.eval()
        parts = job.samples.to(self.images.device).split(inference_batch(self.images))
        return torch.cat([self.logits(self.weights[k], self.images[part]) for part in parts]).float()

    def logits(self, weights: Weights, pixels: Tensor) -> Tensor:
        logits: Tensor
        with autocast(pixels.device, self.recipe.precision):
            logits, _ = functional_call(self.model, weights, (self.normalise(pixels),))
        return logits


def record(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record a CUDA graph of this work, to start all its kernels by one call; on a CPU, return the work."""
    if device.type != "cuda":
        return work
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with COMPILING:
        with torch.cuda.stream(side):
            for _ in range(3):  # compiling and tuning at the first call must not be recorded
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may work meanwhile
            work()
    return graph.replay

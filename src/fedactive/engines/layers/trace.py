"""Find out what a model is made of, by running it on an example, in training and in evaluation.

The result is a list of operations in order, or the reason why the layers' kernels cannot run the model. The
example has values where images are small; large ones have none, so that they cost no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, resolve_name

from fedactive.models.classifier import BatchNorm, Classifier
from fedactive.models.spec import seed_generators

ROWS = 2  # of the example batch
SMALL = 3 * 64 * 64  # values of an image, of which a network's maps are no burden
ABOUT = (torch.Size, torch.device, torch.dtype, int, str)  # what one may ask about a value, without using it
# What depends on the value, though the answer is no tensor.
ANSWERS = ("equal", "allclose", "item", "is_nonzero", "__contains__", "__repr__", "__format__")


class OtherLayerError(Exception):
    """The model has a layer that is not among the known ones; the text names it."""


@dataclass(frozen=True)
class Operation:
    """One layer, applied to the values of these numbers; its own result is the value numbered `result`.

    `names` are those of its weights in the model, `settings` its stride and padding, or what else it has.
    """

    kind: str
    sources: tuple[int, ...]
    result: int
    shape: tuple[int, ...]  # of the result, without the batch
    names: tuple[str | None, ...] = ()
    settings: tuple[Any, ...] = ()


def trace(model: Classifier, input_shape: tuple[int, ...]) -> list[Operation]:
    """List the model's operations; OtherLayerError if there is an unknown one. Value 0 is the image."""
    # Tensors without values cost no memory, but make PyTorch import its compiler, which takes seconds.
    device = "cpu" if math.prod(input_shape) <= SMALL else "meta"
    found = []
    for training in (True, False):
        copy = deepcopy(model).to(device).train(training)
        recorder = Recorder(copy)
        images = torch.zeros(ROWS, *input_shape, device=device)
        recorder.number(images)
        try:
            with seed_generators(0), torch.no_grad(), recorder:
                logits, z = copy(images)
        except OtherLayerError:
            raise
        except Exception as error:  # a model of somebody else's
            raise OtherLayerError(f"something that fails when it is tried: {error}") from error
        ends = (recorder.numbers.get(id(z)), recorder.numbers.get(id(logits)))
        last = recorder.operations[-1] if recorder.operations else None
        if last is None or last.kind != "linear" or (last.sources[0], last.result) != ends:
            raise OtherLayerError("something after the head")
        found.append(recorder.operations)
    if found[0] != found[1]:
        raise OtherLayerError("something that differs between training and evaluation")
    return found[0]


class Recorder(TorchFunctionMode):
    """Notes every operation of PyTorch on values that come from the image; a BatchNorm is one operation."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.numbers: dict[int, int] = {}
        self.alive: list[Tensor] = []  # an id is that of one tensor as long as the tensor lives
        self.inside = False
        self.names = {id(value): name for name, value in model.named_parameters()}
        for name, part in model.named_modules():
            if isinstance(part, BatchNorm):
                part.register_forward_pre_hook(self.enter)
                part.register_forward_hook(self.leave(name, part))

    def number(self, value: Tensor) -> int:
        self.alive.append(value)
        self.numbers[id(value)] = len(self.alive) - 1
        return len(self.alive) - 1

    def note(self, kind: str, sources: Iterable[Tensor], result: Tensor, *details: tuple[Any, ...]) -> None:
        known = tuple(self.numbers[id(value)] for value in sources)
        number = self.number(result)
        self.operations.append(Operation(kind, known, number, tuple(result.shape[1:]), *details))

    def names_of(self, *weights: Tensor | None) -> tuple[str | None, ...]:
        if any(value is not None and id(value) not in self.names for value in weights):
            raise OtherLayerError("weights that are computed from others")
        return tuple(None if value is None else self.names[id(value)] for value in weights)

    def enter(self, _: nn.Module, __: object) -> None:
        self.inside = True

    def leave(self, name: str, part: BatchNorm) -> Callable[..., None]:
        def note(_: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            self.inside = False
            usual = (part.eps, part.momentum, part.affine, part.fixed) == (1e-5, 0.1, True, False)
            if type(part) is not BatchNorm or not usual:
                raise OtherLayerError("a BatchNorm with its own settings")
            self.note("norm", inputs, output, (name,))

        return note

    def __torch_function__(
        self,
        function: Any,
        types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        options = options or {}
        given = [a for a in (*arguments, *options.values()) if isinstance(a, Tensor)]
        ours = [value for value in given if id(value) in self.numbers]
        result = function(*arguments, **options)
        answer = getattr(function, "__name__", "") in ANSWERS
        if self.inside or not ours or (isinstance(result, ABOUT) and not answer):
            return result
        if function not in LAYERS:
            raise OtherLayerError(resolve_name(function) or str(function))
        kind, details = LAYERS[function](self, *arguments, **options)
        self.note(kind, ours, result, *details)
        return result


Details = tuple[str, tuple[tuple[Any, ...], ...]]


def convolution(
    recorder: Recorder, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Details:  # fmt: skip
    size, alone = weight.shape[2], groups == x.shape[1] == len(weight) and groups > 1
    squares = (pair(stride), pair(padding), pair(dilation), tuple(weight.shape[2:]))
    step = squares[0][0]
    if squares != ((step, step), (size // 2, size // 2), (1, 1), (size, size)) or step > 2:
        raise OtherLayerError("a convolution that is not square, or whose stride is above 2")
    if size not in ((3, 5) if alone else (1, 3)) or not (alone or groups == 1):
        raise OtherLayerError(f"a convolution {size}x{size} in {groups} groups")
    return "depthwise" if alone else "convolution", (recorder.names_of(weight, bias), (size, step))


def relu(recorder: Recorder, x: Tensor, inplace: bool = False) -> Details:
    return "relu", ((), ("relu",))


def relu6(recorder: Recorder, x: Tensor, inplace: bool = False) -> Details:
    return "relu", ((), ("relu6",))


def add(recorder: Recorder, x: Tensor, other: Any, *, alpha: float = 1) -> Details:
    if not isinstance(other, Tensor) or x.shape != other.shape or alpha != 1:
        raise OtherLayerError("a sum that is not of two maps")
    return "add", ()


def max_pool(
    recorder: Recorder, x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Details:  # fmt: skip
    steps = pair(kernel_size if stride is None or stride == [] else stride)
    if (pair(kernel_size), steps, pair(padding), pair(dilation), ceil_mode) != (
        (2, 2), (2, 2), (0, 0), (1, 1), False,
    ):  # fmt: skip
        raise OtherLayerError("a max-pooling that is not 2x2")
    return "pool", ()


def mean(recorder: Recorder, x: Tensor, dim: Any = None, keepdim: bool = False) -> Details:
    axes = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if x.dim() != 4 or sorted(axis % 4 for axis in axes) != [2, 3] or keepdim:
        raise OtherLayerError("a mean that is not over all places")
    return "mean", ()


def flatten(recorder: Recorder, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Details:
    if x.dim() != 4 or start_dim != 1 or end_dim not in (-1, 3):
        raise OtherLayerError("a flatten that is not of a whole map")
    return "flatten", ()


def linear(recorder: Recorder, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Details:
    names = recorder.names_of(weight, bias)
    if names != ("head.weight", "head.bias"):
        raise OtherLayerError("a linear layer that is not the head")
    return "linear", (names,)


def pair(value: Any) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


LAYERS: dict[Any, Callable[..., Details]] = {
    torch.conv2d: convolution,
    F.relu: relu,
    torch.relu: relu,
    Tensor.relu: relu,
    F.relu6: relu6,
    torch.add: add,
    Tensor.add: add,
    Tensor.add_: add,
    Tensor.__add__: add,
    Tensor.__iadd__: add,
    F.max_pool2d: max_pool,
    torch.max_pool2d: max_pool,
    torch.mean: mean,
    Tensor.mean: mean,
    torch.flatten: flatten,
    Tensor.flatten: flatten,
    F.linear: linear,
}

"""A model as the kernels see it: convolutions, each with its BatchNorm, and joins of their outputs.

    y   = conv(x)                                  a raw map, with the scale and shift of its BatchNorm
    out = relu(scale·y + shift + other)            a join; `other` is a map, another raw map, or nothing
    out = relu(max of each 2x2 window of scale·y + shift)

So between two convolutions there is one pass over the map, whatever layers stand there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedactive.engines.layers import tiles
from fedactive.engines.layers.trace import Operation, OtherLayerError, trace
from fedactive.models.classifier import Classifier


@dataclass(frozen=True)
class Shape:
    height: int
    breadth: int
    channels: int

    @property
    def area(self) -> int:
        return self.height * self.breadth


@dataclass(frozen=True)
class Convolution:
    source: int  # the number of the map it reads; 0 is the image
    number: int  # that of its raw map
    shape: Shape
    weight: str
    bias: str | None
    norm: str
    size: int
    stride: int
    depthwise: bool


@dataclass(frozen=True)
class Join:
    """The raw maps that are normalised and summed, the map that is added, and what follows the sum."""

    number: int
    shape: Shape
    raw: tuple[int, ...]
    other: int | None = None
    relu: str = ""  # or "relu", or "relu6"
    pooled: bool = False


@dataclass
class Network:
    image: Shape
    steps: list[Convolution | Join] = field(default_factory=list)
    tail: str = ""  # "mean" over places, or "flatten"
    features: int = 0  # of the embedding

    def join(self, number: int) -> Join:
        return next(step for step in self.steps if isinstance(step, Join) and step.number == number)

    def convolution(self, number: int) -> Convolution:
        return next(step for step in self.steps if isinstance(step, Convolution) and step.number == number)

    def first_block(self) -> tuple[Convolution, Join] | None:
        """Return the first convolution and its join, if it is pooled: kernels then need not store its map."""
        convolution, join = self.steps[:2]
        assert isinstance(convolution, Convolution)
        if not isinstance(join, Join) or not join.pooled or join.relu != "relu":
            return None
        channels, values = convolution.shape.channels, 9 * self.image.channels
        simple = (convolution.size, convolution.stride) == (3, 1) and values < 64
        return (convolution, join) if simple and channels in (16, 32, 64, 128) else None

    @property
    def patch(self) -> int:
        """The values kept of a patch of the image, which the first convolution reads, and a 1 behind it."""
        first = self.steps[0]
        assert isinstance(first, Convolution)
        return tiles.power(max(tiles.SMALLEST, first.size**2 * self.image.channels + 1))

    @property
    def last(self) -> Join:
        step = self.steps[-1]
        assert isinstance(step, Join)
        return step


def network_of(model: Classifier, input_shape: tuple[int, ...]) -> Network:
    """Describe the model for the kernels; OtherLayerError says what it has that they do not know."""
    if len(input_shape) != 3:
        raise OtherLayerError("inputs that are not images")
    network = Builder(input_shape).build(trace(model, input_shape))
    if sum(isinstance(step, Convolution) and step.source == 0 for step in network.steps) != 1:
        raise OtherLayerError("an image that is not read by one convolution")
    named = [name for step in network.steps if isinstance(step, Convolution) for name in names_of(step)]
    if sorted([*named, "head.weight", "head.bias"]) != sorted(name for name, _ in model.named_parameters()):
        raise OtherLayerError("weights that are used twice, or not at all")
    return network


def names_of(step: Convolution) -> list[str]:
    names = [step.weight, step.bias, f"{step.norm}.weight", f"{step.norm}.bias"]
    return [name for name in names if name is not None]


class Builder:
    """Goes through the operations and keeps open what may still become part of the same join."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        channels, height, breadth = input_shape
        self.network = Network(Shape(height, breadth, channels))
        self.maps = {0: 0}  # value → number of the finished map
        self.open: dict[int, Join] = {}  # value → the join so far
        self.bare: dict[int, Operation] = {}  # value → a convolution whose BatchNorm is to come
        self.ended = -1  # the embedding's value

    def build(self, operations: list[Operation]) -> Network:
        for step in operations:
            getattr(self, f"add_{step.kind}")(step)
        return self.network

    def finished(self, value: int) -> int:
        """Return the number of the map with this value; a join that was open ends here."""
        if value not in self.maps:
            if value not in self.open:
                raise OtherLayerError(
                    "a convolution without BatchNorm, or a value used before and after its ReLU"
                )
            step = self.open.pop(value)
            self.network.steps.append(step)
            self.maps[value] = step.number
        return self.maps[value]

    def take(self, value: int) -> Join | None:
        """Return the open join with this value, to go on with it."""
        return self.open.pop(value, None)

    def add_convolution(self, step: Operation) -> None:
        self.finished(step.sources[0])
        self.bare[step.result] = step

    add_depthwise = add_convolution

    def add_norm(self, step: Operation) -> None:
        if step.sources[0] not in self.bare:
            raise OtherLayerError("a BatchNorm that does not follow a convolution")
        made = self.bare.pop(step.sources[0])
        weight, bias = made.names
        assert weight is not None
        size, stride = made.settings
        channels, height, breadth = made.shape
        shape = Shape(height, breadth, channels)
        convolution = Convolution(
            self.maps[made.sources[0]], step.result, shape, weight, bias, str(step.names[0]), size, stride,
            made.kind == "depthwise",
        )  # fmt: skip
        if convolution.depthwise and convolution.source == 0:
            raise OtherLayerError("a depthwise convolution of the image")
        self.network.steps.append(convolution)
        self.open[step.result] = Join(step.result, shape, (step.result,))

    def add_relu(self, step: Operation) -> None:
        before = self.take(step.sources[0])
        if before is None or before.relu:
            raise OtherLayerError("a ReLU that does not follow a BatchNorm or a sum")
        self.open[step.result] = replace(before, number=step.result, relu=step.settings[0])

    def add_add(self, step: Operation) -> None:
        raw: list[int] = []
        others: list[int] = []
        for value in step.sources:
            before = self.open.get(value)
            if before and not before.relu and not before.pooled and before.raw == (value,):
                self.open.pop(value)
                raw.append(value)
            else:
                others.append(self.finished(value))
        if not raw or len(raw) + len(others) != 2 or others == [0]:
            raise OtherLayerError("a sum without a BatchNorm before it, or with the image")
        channels, height, breadth = step.shape
        other = others[0] if others else None
        self.open[step.result] = Join(step.result, Shape(height, breadth, channels), tuple(raw), other)

    def add_pool(self, step: Operation) -> None:
        before = self.take(step.sources[0])
        if before is None or len(before.raw) != 1 or before.other is not None or before.pooled:
            raise OtherLayerError("a max-pooling that does not follow a BatchNorm")
        channels, height, breadth = step.shape
        shape = Shape(height, breadth, channels)
        self.open[step.result] = replace(before, number=step.result, shape=shape, pooled=True)

    def add_mean(self, step: Operation) -> None:
        number = self.finished(step.sources[0])
        if number == 0 or self.network.last.number != number:
            raise OtherLayerError("an embedding that is not of the last map")
        self.network.tail, self.ended = step.kind, step.result
        (self.network.features,) = step.shape

    add_flatten = add_mean

    def add_linear(self, step: Operation) -> None:
        if step.sources[0] != self.ended or self.open or self.bare:
            raise OtherLayerError("a head that does not follow a mean or flatten, or values that nobody uses")

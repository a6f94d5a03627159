"""What a backbone is: weights in files, a size and a normalisation of images, and a function to features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from fedactive.errors import ConfigurationError, UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Embed: TypeAlias = "Callable[[Tensor], Tensor]"

# Mean and deviation per channel, of pixels scaled to [0, 1], by the names that options use.
NORMALISATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),  # to [-1, 1]
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),  # [0, 1] as it is
}


@dataclass(frozen=True)
class Backbone(ABC):
    """Abstract; a final class is a frozen dataclass whose options are made with `option`."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive backbones`
    paper: ClassVar[str]

    @property
    def title(self) -> str:
        """Name it in messages; what comes from a file is named by the file."""
        return self.name

    @property
    def size(self) -> int:
        """Return the side of the square images that it wants, in pixels."""
        return 224

    def check(self, size: int) -> None:  # noqa: B027 - most take any size
        """Raise UserError for a size that it cannot take, or whatever else cannot work."""

    @property
    def normalisation(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return mean and deviation per channel, of pixels scaled to [0, 1]."""
        return NORMALISATIONS["imagenet"]

    @abstractmethod
    def files(self) -> Sequence[Path]:
        """List the files that hold its weights: their content decides what features are."""

    @abstractmethod
    def load(self, device: torch.device) -> Embed:
        """Load it; the function gets normalised images (n, 3, size, size) and returns features (n, d).

        On a CPU it is called by several threads at once, each of which computes on one core.
        """

    def skeleton(self) -> Embed | None:
        """Return the network as `load` does, with any weights: an exported file brings them.

        None where the network comes from the same file as its weights.
        """
        return None


def wrong_size(backbone: Backbone, given: int, wanted: int) -> ConfigurationError:
    return ConfigurationError(
        "image_size", given, f"{wanted} with {backbone.title}, whose input has that size"
    )


def unusable(backbone: Backbone, reason: object) -> UserError:
    """Make the error for a backbone that cannot be used; of a long reason it keeps the first line."""
    first = (str(reason).strip() or type(reason).__name__).splitlines()[0]
    return UserError(f"backbone {backbone.title}: {first}")

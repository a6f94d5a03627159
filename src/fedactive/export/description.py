"""What a file must say of its model besides the numbers: what goes in, what comes out, how it is built."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from fedactive import __version__
from fedactive.data.soundness import form
from fedactive.errors import DataError

KEY = "fedactive"  # under which a file keeps the description among its metadata


@dataclass(frozen=True)
class Description:
    """Written into every exported file."""

    run: str  # the name of the run that trained it
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]  # (channels, height, width) of images, (d,) of features
    margins: bool  # images keep their proportions and get black margins, as at sites; else they are stretched
    model: str
    model_options: str = ""
    backbone: str = ""  # the name under which it is registered
    backbone_options: str = ""
    features: int = 0  # how many the backbone makes
    window: tuple[float, float] | None = (
        None  # level and width in which pictures of more than 8 bits are seen
    )
    fedactive: str = __version__

    @property
    def takes_images(self) -> bool:
        return len(self.input_shape) == 3

    @property
    def wanted(self) -> str:
        """What goes in, in words."""
        if not self.takes_images:
            return f"vectors of {self.input_shape[0]} features"
        return f"images of {form(self.input_shape)}"

    @property
    def seen_by_model(self) -> tuple[int, ...]:
        """The shape of what reaches the model that was trained: images, or their features."""
        return (self.features,) if self.backbone else self.input_shape

    def to_json(self) -> str:
        values = asdict(self)
        if self.window is None:  # earlier versions do not know it
            del values["window"]
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str | None, source: str) -> Description:
        """Read what `to_json` wrote; DataError if `source` holds something else."""
        try:
            values = json.loads(text or "")
            lists = [key for key in ("classes", "input_shape", "window") if key != "window" or key in values]
            return cls(**values | {key: tuple(values[key]) for key in lists})
        except (ValueError, TypeError, KeyError, RecursionError):
            raise DataError(f"{source}: `fedactive export` did not write this file") from None

"""An ONNX file of the user's own, run by onnxruntime: images in, features out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from fedactive.backbones.backbone import NORMALISATIONS, Backbone, Embed, unusable, wrong_size
from fedactive.data.own_file import short_digest
from fedactive.errors import UserError
from fedactive.options import option
from fedactive.registry import BACKBONES


@final
@BACKBONES.register
@dataclass(frozen=True)
class Onnx(Backbone):
    name = "onnx"
    summary = "a file of your own: --backbone PATH.onnx (pip install 'fedactive[onnx]')"
    paper = "-"

    file: Path = Path()
    normalise: str = option("imagenet", "how pixels are normalised", choices=tuple(NORMALISATIONS))
    output: str = option("", "which output holds the features; not needed if there is one")

    @property
    def title(self) -> str:
        return str(self.file)

    @property
    def normalisation(self) -> tuple[Sequence[float], Sequence[float]]:
        return NORMALISATIONS[self.normalise]

    @property
    def size(self) -> int:
        return self.fixed_size or super().size

    @property
    def fixed_size(self) -> int:
        """Return the only size that the file takes; 0 if it takes any."""
        *_, height, width = self.input.shape  # names stand for lengths that may vary
        return next((length for length in (height, width) if isinstance(length, int)), 0)

    def check(self, size: int) -> None:
        self.choose_output()
        if self.fixed_size not in (0, size):
            raise wrong_size(self, size, self.fixed_size)

    def files(self) -> Sequence[Path]:
        """List the file, and the one beside it in which exporters keep the weights of large models."""
        beside = (self.file.with_name(self.file.name + end) for end in (".data", "_data"))
        return [self.file, *(path for path in beside if path.is_file())]

    @property
    def session(self) -> Any:
        return open_session(self, short_digest(self.file), "cpu")

    @property
    def input(self) -> Any:
        """The file's input; UserError if it has not one, for images."""
        inputs = self.session.get_inputs()
        if len(inputs) != 1:
            raise unusable(self, f"it has {len(inputs)} inputs, expected one, for images")
        shape, kind = inputs[0].shape, inputs[0].type
        if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3) or kind != "tensor(float)":
            form = ", ".join(map(str, shape))
            raise unusable(
                self, f"its input is {kind} ({form}), expected tensor(float) (n, 3, height, width)"
            )
        return inputs[0]

    def choose_output(self) -> str:
        """Return the name of the output with the features; UserError unless it is known which."""
        names = [output.name for output in self.session.get_outputs()]
        if not names:
            raise unusable(self, "it has no outputs, expected one, with features")
        if self.output and self.output not in names:
            raise unusable(self, f"it has no output {self.output}, but {', '.join(names)}")
        if len(names) > 1 and not self.output:
            choose = f"choose one with --backbone-options output={names[0]}"
            raise unusable(self, f"it has several outputs ({', '.join(names)}); {choose}")
        return self.output or str(names[0])

    def load(self, device: torch.device) -> Embed:
        session, taken, wanted = self.session, self.input, [self.choose_output()]
        if device.type == "cuda":
            session = open_session(self, short_digest(self.file), "cuda")
        batch = taken.shape[0] if isinstance(taken.shape[0], int) else 0  # 0: any

        def run(images: Tensor) -> Tensor:
            (features,) = session.run(wanted, {taken.name: images.contiguous().cpu().numpy()})
            return torch.as_tensor(features)

        def run_in_batches(images: Tensor) -> Tensor:
            """Fill the last batch up, where the file takes no smaller one."""
            parts = []
            for part in images.split(batch):
                full = torch.cat([part, part.new_zeros(batch - len(part), *part.shape[1:])])
                parts.append(run(full)[: len(part)])
            return torch.cat(parts)

        return run_in_batches if batch else run


@cache  # its size is asked for before it is used; `digest`, because a file may change
def open_session(backbone: Onnx, digest: str, device: str) -> Any:
    try:
        import onnxruntime  # an extra
    except ModuleNotFoundError:
        raise UserError("onnxruntime is missing: pip install 'fedactive[onnx]' brings it") from None
    options = onnxruntime.SessionOptions()
    # On a CPU several threads call it, each on its own core; what a GPU cannot do takes all cores.
    options.intra_op_num_threads = 1 if device == "cpu" else 0
    options.log_severity_level = 4  # errors are raised, too
    wanted = ["CUDAExecutionProvider"] if device == "cuda" else []
    there = onnxruntime.get_available_providers()
    providers = [provider for provider in (*wanted, "CPUExecutionProvider") if provider in there]
    try:
        return onnxruntime.InferenceSession(str(backbone.file), options, providers=providers)
    except Exception as error:  # onnxruntime has an error class for each way to fail
        raise unusable(backbone, f"it cannot be read as ONNX ({error})") from error

"""TorchScript (.pt): one network that `torch.jit.load` reads, in Python or C++, without fedactive."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

from fedactive.backbones.backbone import unusable
from fedactive.errors import DataError
from fedactive.export.description import KEY, Description
from fedactive.export.formats import Predict, run_on
from fedactive.export.run_model import RunModel


def encode(model: RunModel) -> bytes:
    require_network(model)
    buffer = io.BytesIO()
    with quiet():
        traced = trace(model.network, model.samples[:2])
        torch.jit.save(traced, buffer, _extra_files={KEY: model.description.to_json()})
    return buffer.getvalue()


def trace(network: nn.Module, example: Tensor) -> torch.jit.ScriptModule:
    traced: torch.jit.ScriptModule = torch.jit.trace(network, example, check_trace=False)
    return traced


def decode(content: bytes, source: str, device: torch.device) -> tuple[Predict, Description]:
    more = {KEY: ""}
    try:
        with quiet():
            network = torch.jit.load(io.BytesIO(content), map_location=device, _extra_files=more)
    except RuntimeError:
        raise DataError(f"{source}: it is no TorchScript file, or it is damaged") from None
    return run_on(network, device), Description.from_json(more[KEY], source)


def require_network(model: RunModel) -> None:
    """Refuse a backbone that PyTorch cannot look into."""
    stage = getattr(model.network, "backbone", None)
    if model.backbone is not None and not isinstance(getattr(stage, "network", None), nn.Module):
        raise unusable(model.backbone, "it is no network of PyTorch's, so that only .onnx can hold it")


@contextmanager
def quiet() -> Iterator[None]:
    """Hide what PyTorch says of the age of this format, and of shapes that it takes for constant.

    All shapes behind the first stage are, and every file is compared with the network.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", TracerWarning)
        warnings.filterwarnings("ignore", "no signature found")
        yield

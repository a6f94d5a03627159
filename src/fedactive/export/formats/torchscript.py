"""TorchScript (.pt): one network that `torch.jit.load` reads, in Python or C++, without fedactive."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fedactive.backbones.backbone import unusable
from fedactive.backbones.script_file import load_script
from fedactive.errors import DataError, RunError
from fedactive.export.description import KEY, Description
from fedactive.export.formats import Predict, run_on
from fedactive.export.run_model import RunModel


def encode(model: RunModel) -> bytes:
    require_network(model)
    buffer = io.BytesIO()
    with recording():
        traced = trace(model.network, model.samples[:2])
        torch.jit.save(traced, buffer, _extra_files={KEY: model.description.to_json()})
    return buffer.getvalue()


def trace(network: nn.Module, example: Tensor) -> torch.jit.ScriptModule:
    try:
        traced: torch.jit.ScriptModule = torch.jit.trace(network, example, check_trace=False)
        return traced
    except Exception as error:  # whatever a network of the user's own may raise
        raise cannot_write("TorchScript", error) from error


def cannot_write(what: str, error: Exception) -> RunError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return RunError(f"PyTorch cannot write this model as {what} ({reason[:160]}); choose another format")


def decode(content: bytes, source: str, device: torch.device) -> tuple[Predict, Description]:
    more = {KEY: ""}
    try:
        with recording():
            network = load_script(content, device, more)
    except ValueError as error:
        raise DataError(f"{source}: {error}") from None
    return run_on(network, device), Description.from_json(more[KEY], source)


def require_network(model: RunModel) -> None:
    """Refuse a backbone that PyTorch cannot look into."""
    stage = getattr(model.network, "backbone", None)
    if model.backbone is not None and not isinstance(getattr(stage, "network", None), nn.Module):
        choose = "; choose .onnx" if model.backbone.name == "onnx" else ", and cannot be exported"
        raise unusable(model.backbone, f"it is no network of PyTorch's{choose}")


@contextmanager
def recording() -> Iterator[None]:
    """Let PyTorch record networks: in single operations, which all formats know, and in silence.

    It would warn that these formats are old, and that it takes shapes for constant. All shapes behind the
    first stage are, and every file is compared with the network.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a transformer's whole layer would be one operation
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)

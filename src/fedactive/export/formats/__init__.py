"""Formats of exported models: each file has `encode` and `decode`, found by the end of a file's name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedactive.errors import ConfigurationError

FORMATS = {".onnx": "onnx_graph", ".safetensors": "safetensors_file", ".pt": "torchscript"}

Predict = Callable[[Tensor], Tensor]  # from samples as they come to probabilities, both on the CPU


def format_of(path: Path) -> Any:
    """Return the module of the format in which this file is, or is to be."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigurationError("model", str(path), f"a file that ends with {', '.join(FORMATS)}")
    return import_module(f"fedactive.export.formats.{FORMATS[path.suffix.lower()]}")


def run_on(network: nn.Module, device: torch.device) -> Predict:
    """Let a network of PyTorch predict on this device."""
    network = network.to(device)

    @torch.inference_mode()
    def predict(samples: Tensor) -> Tensor:
        found: Tensor = network(samples.to(device))
        return found.cpu()

    return predict

"""One small network as files of every format: convolution, ReLU, mean over the image."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

FEATURES = 6
FREE = ("n", 3, "height", "width")  # lengths with a name may vary


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, FEATURES, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).eval()


def write_torchscript(path: Path, module: nn.Module | None = None, size: int = 32) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.trace(module or network(), torch.zeros(2, 3, size, size)), str(path))
    return path


def write_onnx(
    path: Path,
    shape: Sequence[int | str] = FREE,
    outputs: Sequence[str] = ("features",),
    inputs: int = 1,
    kind: int = TensorProto.FLOAT,
) -> Path:
    """Write it as ONNX; further outputs are maps, further inputs are not used."""
    first = network()[0]
    nodes = [
        helper.make_node("Cast", ["images"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["numbers", "weight", "bias"], ["convolved"], strides=[2, 2]),
        helper.make_node("Relu", ["convolved"], ["maps"]),
        helper.make_node("GlobalAveragePool", ["maps"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["features"]),
    ]
    weights = [
        numpy_helper.from_array(value.detach().numpy(), name) for name, value in first.named_parameters()
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(name, kind, shape) for name in ["images", "more", "still"][:inputs]],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(made.SerializeToString())
    assert onnx.load(path).graph.node
    return path


def normalised(images: torch.Tensor, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """What a network gets of uint8 images, by the formula."""
    m, s = (torch.from_numpy(np.array(values, np.float32)).view(1, 3, 1, 1) for values in (mean, std))
    return (images.float() / 255 - m) / s

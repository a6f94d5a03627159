"""ONNX: one graph that every runtime of ONNX can run, on any machine and from any language.

PyTorch's older exporter writes it: it also takes TorchScript, and needs no further package. A backbone that
is ONNX itself is joined to the graphs of the stages before and after it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedactive.backbones.backbone import unusable
from fedactive.backbones.kinds.onnx import Onnx
from fedactive.errors import DataError, UserError
from fedactive.export.description import KEY, Description
from fedactive.export.formats import Predict
from fedactive.export.formats.torchscript import cannot_write, recording, require_network, trace
from fedactive.export.run_model import RunModel

OPSET = 17
OPSETS = range(13, 21)  # of backbones that others wrote
IMAGES, FEATURES, OUTPUT = "images", "features", "probabilities"
ANY_SIZE = {0: "n", 2: "height", 3: "width"}


def encode(model: RunModel) -> bytes:
    onnx = library("onnx")
    if isinstance(model.backbone, Onnx):
        graph = join(model, model.backbone)
    else:
        require_network(model)
        taken, axes = (IMAGES, ANY_SIZE) if model.description.takes_images else (FEATURES, {0: "n"})
        graph = export(model.network, model.samples[:2], OPSET, taken, OUTPUT, axes)
    onnx.helper.set_model_props(graph, {KEY: model.description.to_json()})
    onnx.checker.check_model(graph)
    content: bytes = graph.SerializeToString()
    return content


def export(
    network: nn.Module, example: Tensor, opset: int, taken: str, given: str, axes: Mapping[int, str]
) -> Any:
    buffer = io.BytesIO()
    with recording(), no_graphs_printed():
        # The exporter knows more shapes of what it traces itself; but it cannot trace TorchScript.
        scripted = any(isinstance(part, torch.jit.ScriptModule) for part in network.modules())
        whole = trace(network, example) if scripted else network
        try:
            torch.onnx.export(
                whole,
                (example,),
                buffer,  # type: ignore[arg-type]
                input_names=[taken],
                output_names=[given],
                opset_version=opset,
                dynamic_axes={taken: dict(axes), given: {0: "n"}},
                dynamo=False,
            )
        except Exception as error:  # an operator that ONNX does not have
            raise cannot_write("ONNX", error) from error
    return library("onnx").load_from_string(buffer.getvalue())


@contextmanager
def no_graphs_printed() -> Iterator[None]:
    """Keep the exporter from printing the whole graph where it fails, which it does whatever it is told."""
    log = torch._C._jit_onnx_log
    torch._C._jit_onnx_log = lambda *_: None
    try:
        yield
    finally:
        torch._C._jit_onnx_log = log


def join(model: RunModel, backbone: Onnx) -> Any:
    """Join pixels → backbone → probabilities, all in the versions of the backbone's file."""
    onnx = library("onnx")
    theirs = onnx.shape_inference.infer_shapes(onnx.load(str(backbone.file)))
    theirs = onnx.compose.add_prefix(theirs, "backbone/")
    opset = next((known.version for known in theirs.opset_import if known.domain in ("", "ai.onnx")), 0)
    if opset not in OPSETS:
        known = f"{OPSETS[0]} to {OPSETS[-1]}"
        raise unusable(backbone, f"its operators are of version {opset}; those of {known} can be exported")
    if isinstance(backbone.input.shape[0], int):
        raise unusable(backbone, "it takes batches of one length only; write it with a free one to export it")
    stages = dict(model.network.named_children())
    place = list(stages).index("backbone")
    before, after = list(stages.values())[:place], list(stages.values())[place + 1 :]
    features = torch.zeros(2, model.description.features)
    first = export(nn.Sequential(*before), model.samples[:2], opset, IMAGES, "pixels", ANY_SIZE)
    last = export(nn.Sequential(nn.Flatten(), *after), features, opset, FEATURES, OUTPUT, {0: "n"})
    for graph in (first, last):
        graph.ir_version = theirs.ir_version
    last = onnx.compose.add_prefix(last, "head/", rename_outputs=False)
    output = f"backbone/{backbone.choose_output()}"
    joined = onnx.compose.merge_models(
        first, theirs, [("pixels", f"backbone/{backbone.input.name}")], outputs=[output]
    )
    return onnx.compose.merge_models(joined, last, [(output, f"head/{FEATURES}")], outputs=[OUTPUT])


def decode(content: bytes, source: str, device: torch.device) -> tuple[Predict, Description]:
    runtime = library("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, too
    options.intra_op_num_threads = 1  # several threads call it, each on its own core
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    providers = [p for p in (*wanted, "CPUExecutionProvider") if p in runtime.get_available_providers()]
    try:
        session = runtime.InferenceSession(content, options, providers=providers)
        text = session.get_modelmeta().custom_metadata_map.get(KEY)
    except Exception as error:  # onnxruntime has an error class for each way to fail
        raise DataError(f"{source}: it cannot be read as ONNX, or it is damaged") from error
    description = Description.from_json(text, source)
    taken = IMAGES if description.takes_images else FEATURES

    def predict(samples: Tensor) -> Tensor:
        (found,) = session.run([OUTPUT], {taken: np.ascontiguousarray(samples.numpy())})
        return torch.from_numpy(found)

    return predict, description


def library(name: str) -> Any:
    try:
        if name == "onnx":
            import onnx
            import onnx.compose
            import onnx.shape_inference

            return onnx
        import onnxruntime

        return onnxruntime
    except ModuleNotFoundError:
        raise UserError(f"{name} is missing: pip install 'fedactive[export]' brings it") from None

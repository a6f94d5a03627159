"""Safetensors: all weights by name, and the description from which fedactive builds the network again."""

from __future__ import annotations

import json
from typing import Any

import torch

from fedactive.backbones.backbone import Embed, unusable
from fedactive.data.own_features import Standardisation
from fedactive.errors import DataError, UserError
from fedactive.export.description import KEY, Description
from fedactive.export.formats import Predict, run_on
from fedactive.export.network import Affine, whole_network
from fedactive.export.run_model import RunModel
from fedactive.models import ModelSpec
from fedactive.registry import BACKBONES


def encode(model: RunModel) -> bytes:
    if model.backbone is not None and model.backbone.skeleton() is None:
        raise unusable(model.backbone, "a .safetensors file holds weights, and no such network; choose .onnx")
    weights = {name: value.contiguous() for name, value in model.network.state_dict().items()}
    content: bytes = library().save(weights, {KEY: model.description.to_json()})
    return content


def decode(content: bytes, source: str, device: torch.device) -> tuple[Predict, Description]:
    description = Description.from_json(metadata(content).get(KEY), source)
    d = description
    classifier = ModelSpec(d.model, d.seen_by_model, len(d.classes), d.model_options).build()
    features = d.features or (0 if d.takes_images else d.input_shape[0])
    network = whole_network(
        classifier,
        fit=(d.input_shape[1], d.input_shape[2]) if d.takes_images else None,
        normalise=empty(1, 3 if d.backbone else d.input_shape[0], 1, 1) if d.takes_images else None,
        backbone=skeleton(d) if d.backbone else None,
        standardise=Standardisation(torch.zeros(features), torch.zeros(features)) if features else None,
    )
    try:
        network.load_state_dict(library().load(content))
    except Exception as error:  # the library has an error class of its own, PyTorch raises RuntimeError
        reason = " ".join(str(error).split())[:160]
        raise DataError(f"{source}: its weights do not fit {d.model}, or it is damaged ({reason})") from None
    return run_on(network, device), description


def empty(*shape: int) -> Affine:
    return Affine(torch.zeros(shape), torch.zeros(shape))


def skeleton(description: Description) -> Embed:
    d = description
    found: Embed | None = BACKBONES.make(d.backbone, d.backbone_options).skeleton()
    if found is None:
        raise UserError(f"backbone {d.backbone} cannot be built without its weights")
    return found


def metadata(content: bytes) -> dict[str, Any]:
    """Read the header: its length in 8 bytes, then JSON."""
    try:
        length = int.from_bytes(content[:8], "little")
        return dict(json.loads(content[8 : 8 + length])["__metadata__"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def library() -> Any:
    try:
        import safetensors.torch  # an extra
    except ModuleNotFoundError:
        raise UserError("safetensors is missing: pip install 'fedactive[export]' brings it") from None
    return safetensors.torch

"""Embed images: from uint8 pixels to features, once, on all cores or on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from fedactive.backbones.backbone import Backbone, unusable
from fedactive.backbones.cache import PART, PartStore
from fedactive.backbones.find import content
from fedactive.data.preprocess import Normalise
from fedactive.data.resize import resize
from fedactive.errors import UserError
from fedactive.options import options_of

# Pixels at a time. On a CPU so few that the maps of a batch stay in the cache of its core.
PIXELS = {"cpu": 3 * 224 * 224, "cuda": 512 * 224 * 224}

Report = Callable[[int], None]  # told how many images more are done


def embed(
    backbone: Backbone,
    images: Tensor,
    size: int,
    device: torch.device,
    report: Report = lambda count: None,
    place: Path | None = None,
) -> Tensor:
    """Return the features (n, d) of uint8 images; those that were computed before come from the cache.

    `place` is the folder of the cache, if not the user's own.
    """
    store = part_store(backbone, images, size, place)
    found: list[Tensor] = []
    with workers(device) as run:
        apply = None  # loaded when first needed
        for first in range(0, len(images), PART):
            part = images[first : first + PART]
            features = store.read(first, len(part))
            if features is not None:
                report(len(part))
            else:
                apply = apply or prepare(backbone, size, device)
                features = check(backbone, compute(apply, part, size, device, run, report), first)
                store.write(first, features)
            found.append(features)
    return torch.cat(found)


def part_store(backbone: Backbone, images: Tensor, size: int, place: Path | None = None) -> PartStore:
    """Return where the features of these images are kept."""
    return PartStore(images, *what_decides(backbone), size, place=place)


def what_decides(backbone: Backbone) -> tuple[object, ...]:
    """Return what decides features, beside the images and their size."""
    options = [getattr(backbone, item.name) for item in options_of(type(backbone))]
    return backbone.name, options, content(backbone)


def count_features(backbone: Backbone, size: int) -> int:
    """Return how many features it makes of an image."""
    black = torch.zeros(1, 3, size, size, dtype=torch.uint8)
    return prepare(backbone, size, torch.device("cpu"))(black).shape[1]


def prepare(backbone: Backbone, size: int, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Load the backbone; return the function from uint8 images of any size to features on the CPU."""
    network = backbone.load(device)
    mean, std = backbone.normalisation
    normalise = Normalise((3, size, size), mean, std, device)

    @torch.inference_mode()
    def apply(images: Tensor) -> Tensor:
        pixels = resize(images.to(device), size).expand(-1, 3, -1, -1)  # a grey image is three equal channels
        try:
            with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
                features = network(normalise(pixels))
        except UserError:
            raise
        except Exception as error:  # whatever a network of the user's own may raise
            reason = " ".join(str(error).split())
            raise unusable(backbone, f"it cannot embed images of {size}x{size}x3 ({reason})") from error
        return matrix(backbone, features, len(images)).float().cpu()

    return apply


def matrix(backbone: Backbone, features: object, count: int) -> Tensor:
    """Return features as (n, d); a network may leave maps of 1x1."""
    if isinstance(features, tuple | list) and len(features) != 1:
        raise unusable(backbone, f"it returns {len(features)} outputs, expected one, with features")
    found = features[0] if isinstance(features, tuple | list) else features
    if not isinstance(found, Tensor):
        raise unusable(backbone, f"it returns a {type(found).__name__}, expected a tensor")
    shape = tuple(found.shape)
    if len(shape) < 2 or shape[0] != count or any(length != 1 for length in shape[2:]):
        raise unusable(backbone, f"it makes {shape} of {count} images, expected ({count}, d): a row for each")
    return found.flatten(1)


def check(backbone: Backbone, features: Tensor, first: int) -> Tensor:
    """Refuse features that are not finite."""
    bad = (~features.isfinite()).any(1).nonzero()
    if len(bad):
        raise unusable(backbone, f"features of image {first + int(bad[0])} are not finite numbers")
    return features


# --- all cores, or the GPU

Run = Callable[[Callable[[Tensor], Tensor], Sequence[Tensor]], Iterator[Tensor]]


def compute(
    apply: Callable[[Tensor], Tensor],
    part: Tensor,
    size: int,
    device: torch.device,
    run: Run,
    report: Report,
) -> Tensor:
    batches = part.split(max(1, PIXELS[device.type] // size**2))
    outputs = []
    for features in run(apply, batches):
        outputs.append(features)
        report(len(features))
    return torch.cat(outputs)


@contextmanager
def workers(device: torch.device) -> Iterator[Run]:
    """Make what runs a function on batches: on a CPU on threads, each with a batch and a core of its own.

    All cores together on one batch would wait for each other, and its maps would not fit into their caches.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield map
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(threads)  # threads that begin later take over what was set last, by any thread

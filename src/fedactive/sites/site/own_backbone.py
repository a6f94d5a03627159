"""The backbone of a run, as this site has it, and the features that it makes of the site's images.

A coordinator says which backbone it means by a name or by the name of a file, and by a hash of its content.
No file is looked up by a name that came from elsewhere: of those in the site's folder `backbones` the content
decides.
"""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedactive.backbones.cache import PartStore
from fedactive.backbones.embedding import embed, part_store, what_decides
from fedactive.backbones.find import content, find_backbone, is_file
from fedactive.engines import choose_device
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.sites.site.features import FeatureStore
from fedactive.sites.site.site_run import Holdings

log = logging.getLogger(__name__)

FOLDER = "backbones"  # in a site's folder
SECONDS_BETWEEN_LINES = 10.0  # of the log


class OtherBackboneError(UserError):
    """This site has not the backbone that a run wants."""


def with_own_backbone(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an experiment's settings with the path of the site's own file; OtherBackboneError without one.

    `folder` is where a person has put files for the site.
    """
    name, options = str(settings.get("backbone", "")), str(settings.get("backbone_options", ""))
    wanted = str(settings.get("backbone_sha256", ""))
    if not name:
        return settings
    here = sorted(map(str, folder.glob("*"))) if is_file(name) else [name]
    same_kind = [path for path in here if Path(path).suffix == Path(name).suffix]
    try:
        for own in same_kind:
            if content(find_backbone(own, options)) == wanted:
                return settings | {"backbone": own}
    except UserError as error:  # for one, the package with the weights is not installed
        raise OtherBackboneError(f"the run wants a backbone {name}: {error}") from None
    if is_file(name):
        raise OtherBackboneError(
            f"the run wants {Path(name).name}, whose SHA-256 begins with {wanted}, and {folder} has no such "
            f"file: get it from the coordinator and put it there"
        )
    raise OtherBackboneError(
        f"the run wants a backbone {name} with the hash {wanted}, and the one that is installed here is "
        "another: install the coordinator's version"
    )


def embed_holdings(held: Holdings, experiment: Experiment, cache: Path) -> Holdings:
    """Return features in place of images. Those of an image are computed once and kept in `cache`.

    Parts that are done are kept, too, until all are: a site that is stopped meanwhile goes on where it was.
    """
    e, device = experiment, choose_device(experiment.device)
    backbone, total = find_backbone(e.backbone, e.backbone_options), len(held.images) + len(held.test_images)
    begun = told = time.monotonic()
    done = 0

    def report(count: int) -> None:
        nonlocal done, told
        done += count
        if time.monotonic() - told > SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            log.info("embedding images with %s: %d of %d", backbone.title, done, total)

    def embedded(images: Tensor, role: str) -> Tensor:
        parts: list[PartStore] = []

        def compute(new: Tensor) -> Tensor:
            report(len(images) - len(new))
            parts.append(part_store(backbone, new, e.image_size, cache))
            return embed(backbone, new, e.image_size, device, report, cache)

        made_by = hashlib.sha256(repr((*what_decides(backbone), e.image_size)).encode()).hexdigest()[:16]
        features = FeatureStore(cache / f"{role}-{made_by}.npz").of(images, compute)
        for store in parts:
            store.remove()
        return features

    features = embedded(held.images, "pool")
    tests = embedded(held.test_images, "test") if len(held.test_images) else features[:0]
    log.info("%d images are embedded, in %.0f s", total, time.monotonic() - begun)
    return replace(held, images=features, test_images=tests)

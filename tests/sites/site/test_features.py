"""Features that are kept: each image is embedded once, wherever it stands and whatever comes beside it."""

from __future__ import annotations

import pytest
import torch

from fedactive.errors import RunError
from fedactive.sites.site.features import FeatureStore

IMAGES = torch.arange(6 * 12, dtype=torch.uint8).reshape(6, 3, 2, 2)


@pytest.fixture
def features(tmp_path):
    return FeatureStore(tmp_path / "cache" / "pool.npz")


@pytest.fixture
def compute():
    """Embeds, and counts how many images it was given each time."""

    def embed(images):
        embed.given.append(len(images))
        return images.flatten(1).float() / 7

    embed.given = []
    return embed


def test_only_new_images_are_embedded(features, compute):
    whole = compute(IMAGES)
    compute.given.clear()
    for wanted in ([0, 1, 2], [0, 1, 2], [4, 0, 3, 2], [2, 2, 4], [5]):
        assert torch.equal(features.of(IMAGES[wanted], compute), whole[wanted])
    assert compute.given == [3, 2, 1]


def test_what_is_gone_is_not_kept(features, compute):
    features.of(IMAGES, compute)
    features.of(IMAGES[:2], compute)
    assert len(features.read()[0]) == 2


def test_a_damaged_file_is_made_anew(features, compute):
    features.of(IMAGES, compute)
    features.file.write_bytes(features.file.read_bytes()[:100])
    assert torch.equal(features.of(IMAGES, compute), compute(IMAGES))
    assert compute.given == [6, 6, 6]


def test_a_file_that_cannot_be_written_is_told(features, compute):
    features.file.parent.write_text("in the way")
    with pytest.raises(RunError, match=r"cannot write .*pool.npz"):
        features.of(IMAGES, compute)

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from fedactive.data.resize import resize


@pytest.mark.parametrize("size", [97, 700])  # smaller and larger than the photograph
def test_photographs_are_resized_as_pillow_does(size):
    photograph = load_sample_image("flower.jpg").copy()
    found = resize(torch.from_numpy(photograph).permute(2, 0, 1)[None], size)
    assert found.dtype == torch.uint8
    expected = np.asarray(Image.fromarray(photograph).resize((size, size), Image.Resampling.BILINEAR))
    assert np.abs(found[0].permute(1, 2, 0).numpy().astype(int) - expected).max() <= 1


def test_images_of_that_size_are_left_alone():
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    assert resize(images, 8) is images

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
    assert abs(found[0].permute(1, 2, 0).numpy().mean() - expected.mean()) < 0.1  # rounded, not cut off


def test_the_sides_may_differ():
    image = torch.tensor([[[[0, 100], [100, 200]]]], dtype=torch.uint8)
    assert resize(image, (1, 2)).tolist() == [[[[50, 150]]]]
    assert resize(image, (2, 1)).tolist() == [[[[50], [150]]]]


def test_real_numbers_as_on_a_gpu_are_rounded():
    image = torch.tensor([[[[0.0, 3.0]]]])
    assert resize(image, (1, 1)).item() == 2  # of 1.5


def test_images_of_that_size_are_left_alone():
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    assert resize(images, 8) is images

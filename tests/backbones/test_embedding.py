"""Images are embedded once: in parts that survive a kill, and on several threads alike."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from fedactive.backbones import Backbone, option, register
from fedactive.backbones.cache import PART
from fedactive.backbones.embedding import embed
from fedactive.backbones.find import find_backbone
from fedactive.errors import RunError, UserError
from support.lacking import NO_GPU

CPU = torch.device("cpu")
SIZE = 16


@pytest.fixture
def counting():
    """A backbone whose features are means; `calls` are the images that it was given."""

    @register
    @dataclass(frozen=True)
    class Means(Backbone):
        name, summary, paper = "means", "means of the channels", "-"
        calls: ClassVar[list[int]] = []
        factor: float = option(1.0, "by which features are multiplied")

        def files(self):
            return []

        def load(self, device):
            def means(images):
                self.calls.append(len(images))
                return self.factor * images.mean((2, 3))

            return means

    return Means


@pytest.fixture(scope="module")
def images(digits):
    return digits.train_inputs


def test_a_second_time_nothing_is_computed(counting, images):
    first = embed(find_backbone("means"), images, SIZE, CPU)
    assert sum(counting.calls) == len(images) > 2 * PART
    counting.calls.clear()
    assert torch.equal(embed(find_backbone("means"), images, SIZE, CPU), first)
    assert counting.calls == []


def test_progress_reaches_the_number_of_images_either_way(counting, images):
    for _ in range(2):
        counts = []
        embed(find_backbone("means"), images, SIZE, CPU, counts.append)
        assert sum(counts) == len(images)


@pytest.mark.parametrize(
    ("images_of", "size", "options"),
    [
        (lambda images: images.flip(-1), SIZE, ""),
        (lambda images: images, SIZE + 1, ""),
        (lambda images: images, SIZE, "factor=2"),
    ],
    ids=["images", "size", "options"],
)
def test_anything_else_is_computed_anew(counting, images, images_of, size, options):
    images = images[:10]
    embed(find_backbone("means"), images, SIZE, CPU)
    counting.calls.clear()
    embed(find_backbone("means", options), images_of(images), size, CPU)
    assert sum(counting.calls) == 10


def test_a_damaged_part_is_computed_again(counting, images, cache):
    expected = embed(find_backbone("means"), images, SIZE, CPU)
    first, second, _ = sorted(cache.rglob("*.npy"))
    first.write_bytes(first.read_bytes()[:-100])
    np.save(second, np.zeros((3, 3), np.float32))
    counting.calls.clear()
    assert torch.equal(embed(find_backbone("means"), images, SIZE, CPU), expected)
    assert sum(counting.calls) == 2 * PART


def test_threads_compute_the_same_features(images, cache, monkeypatch):
    backbone, found = find_backbone("efficientnet_lite0"), []
    before = torch.get_num_threads()
    for threads in (1, 2):
        monkeypatch.setenv("FEDACTIVE_CACHE", str(cache / str(threads)))
        torch.set_num_threads(threads)
        try:
            found.append(embed(backbone, images[:70], 32, CPU))
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
    assert torch.equal(*found)


SLOW = """
import time
from dataclasses import dataclass
from pathlib import Path
from fedactive.backbones import Backbone, register

@register
@dataclass(frozen=True)
class Slow(Backbone):
    name, summary, paper = "slow", "slow", "-"
    def files(self):
        return []
    def load(self, device):
        def means(images):
            with Path("calls").open("a") as file:
                print(len(images), file=file)
            time.sleep(0.2)
            return images.mean((2, 3))
        return means
"""


def test_a_killed_embedding_goes_on_where_it_was(tmp_path, cache):
    (tmp_path / "slow.py").write_text(SLOW)
    words = ["embed", "--plugin", "slow.py", "--dataset", "digits", "--image-size", "16"]
    command = [
        sys.executable,
        "-m",
        "fedactive",
        *words,
        "--backbone",
        "slow",
        "--device",
        "cpu",
        "-o",
        "a.npz",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while len(list(cache.rglob("*.npy"))) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert not (tmp_path / "a.npz").exists()
    kept = sum(len(np.load(file)) for file in cache.rglob("*.npy"))
    assert kept >= 2 * PART
    (tmp_path / "calls").unlink()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "a.npz: 1438 training and 359 test samples of 3 features, 10 classes\n"
    computed = sum(map(int, Path(tmp_path, "calls").read_text().split()))
    assert computed == 1438 + 359 - kept


def test_features_that_are_not_finite_are_refused_by_the_image(images):
    @register
    @dataclass(frozen=True)
    class Odd(Backbone):
        name, summary, paper = "odd", "", ""

        def files(self):
            return []

        def load(self, device):
            return lambda images: images.mean((2, 3)) / (images.std((2, 3)) > 0)

    black = images[: PART + 9].clone()
    black[PART + 7] = 0
    with pytest.raises(
        UserError, match=f"^backbone odd: features of image {PART + 7} are not finite numbers$"
    ):
        embed(find_backbone("odd"), black, SIZE, CPU)


def test_a_cache_that_cannot_be_written_is_one_sentence(counting, images, cache):
    cache.write_text("a file in place of a folder")
    with pytest.raises(
        RunError, match=r"cannot write embeddings to .*set the variable FEDACTIVE_CACHE to a folder"
    ):
        embed(find_backbone("means"), images[:3], SIZE, CPU)


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
def test_a_gpu_computes_the_same_features_but_for_rounding(images, cache, monkeypatch):
    found = []
    for device in ("cpu", "cuda"):
        monkeypatch.setenv("FEDACTIVE_CACHE", str(cache / device))
        found.append(embed(find_backbone("efficientnet_lite0"), images[:600], 64, torch.device(device)))
    alike = torch.nn.functional.cosine_similarity(*found)
    assert alike.min() > 0.99  # the GPU computes with bfloat16

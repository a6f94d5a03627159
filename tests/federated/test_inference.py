import threading
import time

import pytest
import torch
from torch import nn

from fedactive.data.preprocess import Normalise
from fedactive.federated import inference
from fedactive.federated.inference import chunks, infer, infer_dropping
from fedactive.models import MODELS, ModelSpec
from support.tiny import Tiny

NORMALISE = Normalise((1, 1, 1), [0.5], [0.2], torch.device("cpu"))


class Counting(Tiny):
    """Keeps how many images came at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def embed(self, images):
        self.counts.append(len(images))
        return images[:, :, 0, 0]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("side", "images", "counts"),
    [
        (1, 2050, [2048, 2]),
        (8, 1030, [1024, 6]),
        (28, 90, [83, 7]),
        (32, 75, [64, 11]),
        (64, 40, [16, 16, 8]),
        (128, 9, [4, 4, 1]),
        (1024, 2, [1, 1]),
        (1024, 0, [0]),
    ],
)
def test_large_images_are_looked_at_fewer_at_a_time(side, images, counts):
    model = Counting()
    pixels = torch.zeros(images, 1, side, side, dtype=torch.uint8)
    logits, embeddings = infer(model, pixels, NORMALISE, "fp32")
    assert len(logits) == len(embeddings) == images
    assert sorted(model.counts, reverse=True) == counts


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_numbers_do_not_depend_on_threads(threads, name, precision):
    spec = ModelSpec(name, (1, 16, 16), 10)
    model = spec.build()
    model.load_state_dict(spec.initial_weights(torch.Generator().manual_seed(0)))
    rng = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (260, 1, 16, 16), dtype=torch.uint8, generator=rng)
    found = []
    for count in (1, 2):
        threads(count)
        found.append(infer(model, pixels, NORMALISE, precision))
        assert torch.get_num_threads() == count
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    assert not found[0][0].requires_grad


class Dropping(Counting):
    """Its embedding is one pixel, normalised, and in training half the time 0 and otherwise doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(1), nn.Dropout(0.5)
        nn.init.ones_(self.head.weight)

    def embed(self, images):
        return self.drop(self.norm(super().embed(images)))


def test_dropout_is_as_in_training_and_batchnorm_as_in_use():
    model = Dropping().eval()
    pixels = torch.full((75, 1, 32, 32), 255, dtype=torch.uint8)  # (1 - 0.5) / 0.2 = 2.5
    logits, embeddings = infer_dropping(model, pixels, NORMALISE, "fp32", seed=3)
    assert model.counts == [64, 11]
    assert logits.shape == (75, 2)
    assert 20 < (embeddings == 0).sum() < 55
    assert embeddings.unique().tolist() == pytest.approx(
        [0, 5], abs=1e-3
    )  # of the running statistics, 0 and 1
    assert model.norm.running_mean.item() == 0
    again, other = (infer_dropping(model, pixels, NORMALISE, "fp32", seed)[1] for seed in (3, 4))
    assert torch.equal(again, embeddings)
    assert not torch.equal(other, embeddings)
    assert len(infer_dropping(model, pixels[:0], NORMALISE, "fp32", seed=3)[0]) == 0


class Seeing(Tiny):
    """Keeps which threads called it, with how many of their own, and in which mode."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int, bool]] = []

    def embed(self, images):
        time.sleep(0.05)
        self.seen.append((threading.get_ident(), torch.get_num_threads(), self.training))
        return images.flatten(1)


@pytest.mark.parametrize(
    ("images", "cores", "helpers", "own"), [(5000, 2, 2, 1), (5000, 1, 0, 1), (9, 2, 0, 2)]
)
def test_batches_go_side_by_side_with_one_thread_each(threads, images, cores, helpers, own):
    threads(cores)
    model = Seeing().train()
    infer(model, torch.zeros(images, 1, 1, 1, dtype=torch.uint8), NORMALISE, "fp32")
    others = {ident for ident, _, _ in model.seen} - {threading.get_ident()}
    assert len(others) == helpers
    assert {(count, training) for _, count, training in model.seen} == {(own, False)}


def test_bf16_is_rounded_and_fp32_is_not(threads):
    threads(2)
    model = Tiny()
    model.load_state_dict({"head.weight": torch.tensor([[1.001], [2.003]]), "head.bias": torch.zeros(2)})
    pixels = torch.full((3000, 1, 1, 1), 255, dtype=torch.uint8)
    exact, rounded = (infer(model, pixels, NORMALISE, precision)[0] for precision in ("fp32", "bf16"))
    assert torch.allclose(exact[0], torch.tensor([1.001, 2.003]) * 2.5, rtol=1e-6)
    assert not torch.equal(exact, rounded)
    assert torch.allclose(exact, rounded, rtol=0.02)


def test_threads_that_begin_later_are_not_held_to_one_core(threads):
    threads(2)
    infer(Tiny(), torch.zeros(5000, 1, 1, 1, dtype=torch.uint8), NORMALISE, "fp32")
    seen = []
    later = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert seen == [2]


def test_what_goes_wrong_in_a_thread_is_raised(threads):
    threads(2)

    class Broken(Tiny):
        def embed(self, images):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        infer(Broken(), torch.zeros(5000, 1, 1, 1, dtype=torch.uint8), NORMALISE, "fp32")


@pytest.mark.parametrize(
    ("shape", "kind", "most", "count", "sizes"),
    [
        ((3, 32, 32), torch.uint8, 2**20, 700, [320, 320, 60]),  # 5 batches of 64, with 3 KB each
        ((1, 1, 1), torch.uint8, 2**13, 9000, [8192, 808]),  # 4 batches of 2048, with a byte each
        ((10,), torch.float32, 2**18, 9000, [6144, 2856]),  # 3 batches of 2048, with 40 bytes each
        ((3, 32, 32), torch.uint8, 1, 100, [64, 36]),  # never less than a batch
        ((3, 32, 32), torch.uint8, 1, 1, [1]),
        ((3, 32, 32), torch.uint8, 1, 0, [0]),
    ],
)
def test_copies_are_made_of_whole_batches_that_stay_small(monkeypatch, shape, kind, most, count, sizes):
    monkeypatch.setattr(inference, "CHUNK", most)
    inputs = torch.zeros((), dtype=kind).expand(count, *shape)
    parts = chunks(inputs, torch.arange(count))
    assert [len(part) for part in parts] == sizes
    assert torch.equal(torch.cat(parts), torch.arange(count))

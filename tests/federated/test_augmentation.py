"""What augmentations make of images, drawn from keys; and what engines refuse."""

import hashlib

import pytest
import torch

from fedactive.errors import ConfigurationError, UserError
from fedactive.experiment import Experiment
from fedactive.federated.augmentation import Augmentation, check_augmentation, integers, make_augmentation
from fedactive.federated.batches import draw_keys
from fedactive.registry import AUGMENTATIONS

KEYS = draw_keys(3, 1, 500)[0]


def images(count=500, channels=2, height=16, width=24):
    rng = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (count, channels, height, width), dtype=torch.uint8, generator=rng)


def test_integers_are_fair_and_streams_independent():
    keys = draw_keys(1, 1, 20000)[0]
    drawn = integers(keys, 5, "a")
    assert drawn.bincount(minlength=5).div(len(keys)).sub(0.2).abs().max() < 0.01
    pairs = torch.stack([drawn, integers(keys, 5, "b"), (keys < 0).long()]).double()
    assert (torch.corrcoef(pairs) - torch.eye(3)).abs().max() < 0.02


def naive_integer(key, below, stream):
    """In whole numbers without end, cut off to 64 bits."""
    bits = 2**64 - 1
    x = (key ^ int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "big")) & bits
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & bits
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & bits
    return ((x ^ (x >> 31)) >> 33) % below


@pytest.mark.parametrize("stream", ["a", "b", "c", "crop: rows"])
def test_integers_are_those_of_the_hash(stream):
    keys = [0, 1, -1, 2**62, -(2**63), 123456789]
    found = integers(torch.tensor(keys), 1000, stream).tolist()
    assert found == [naive_integer(key, 1000, stream) for key in keys]


def test_images_with_a_key_below_0_are_mirrored():
    given, keys = images(), torch.cat([torch.tensor([0]), KEYS[1:]])
    found = make_augmentation("flip")(given, keys)
    for image, key, made in zip(given, keys, found, strict=True):
        assert torch.equal(made, image.flip(-1) if key < 0 else image)


@pytest.mark.parametrize(("sides", "margins"), [((16, 24), (2, 3)), ((7, 9), (1, 1))])
def test_crops_are_shifted_by_up_to_an_eighth_and_black_comes_in(sides, margins):
    (height, width), (down, right) = sides, margins
    given = images(height=height, width=width)
    found = make_augmentation("crop")(given, KEYS)
    padded = torch.nn.functional.pad(given, (right, right, down, down))
    seen = set()
    for image, made in zip(padded, found, strict=True):
        places = [
            (y, x)
            for y in range(2 * down + 1)
            for x in range(2 * right + 1)
            if torch.equal(made, image[:, y : y + height, x : x + width])
        ]
        assert len(places) == 1
        seen.update(places)
    assert len(seen) == (2 * down + 1) * (2 * right + 1)


def test_augmentations_are_applied_in_the_order_of_their_names():
    given = images()
    flip, crop = (make_augmentation(name) for name in ("flip", "crop"))
    assert torch.equal(make_augmentation("flip+crop")(given, KEYS), crop(flip(given, KEYS), KEYS))
    assert torch.equal(make_augmentation("crop+flip")(given, KEYS), flip(crop(given, KEYS), KEYS))
    assert make_augmentation("none")(given, KEYS) is given


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 9, 7)])
def test_ours_keep_the_contract(name, shape):
    check_augmentation(name, shape)


BREACHES = {
    "it makes torch.float32 (6, 3, 8, 8) of torch.uint8": lambda images, keys: images.float(),
    "it changes the images that it is given": lambda images, keys: images.add_(1),
    "what it makes of an image depends on the others": lambda images, keys: images.roll(1, 0),
    "it reads values of tensors": lambda images, keys: images.flip(-1) if keys[0].item() % 2 > 5 else images,
}


@pytest.mark.parametrize("reason", BREACHES)
def test_what_engines_could_not_do_alike_is_refused(reason):
    @AUGMENTATIONS.register
    class Mine(Augmentation):
        name, summary, paper = "mine", "-", "-"

        def __call__(self, images, keys):
            return BREACHES[reason](images, keys)

    with pytest.raises(UserError) as caught:
        check_augmentation("mine")
    assert str(caught.value).startswith(f"augmentation mine: {reason}")


def test_own_random_numbers_are_refused():
    @AUGMENTATIONS.register
    class Mine(Augmentation):
        name, summary, paper = "mine", "-", "-"

        def __call__(self, images, keys):
            return images + torch.randint(0, 9, images.shape, dtype=torch.uint8)

    with torch.random.fork_rng(), pytest.raises(UserError, match="two calls differ"):
        check_augmentation("mine")


def test_drawing_for_nothing_is_refused_too():
    @AUGMENTATIONS.register
    class Mine(Augmentation):
        name, summary, paper = "mine", "-", "-"

        def __call__(self, images, keys):
            torch.rand(1)
            return images.clone()

    with torch.random.fork_rng(), pytest.raises(UserError, match="two calls differ"):
        check_augmentation("mine")


def test_names_are_checked_before_any_work():
    assert Experiment(augment=" flip + crop ").augment == "flip+crop"
    assert Experiment(augment="flip").hash == Experiment().hash != Experiment(augment="crop").hash
    with pytest.raises(ConfigurationError, match=r"augment: 'corp' .* crop, flip, none, .* 'crop'\?"):
        Experiment(augment="flip+corp")
    with pytest.raises(
        ConfigurationError, match=r"augment: 'flip\+flip' was given, allowed is each only once"
    ):
        Experiment(augment="flip+flip")

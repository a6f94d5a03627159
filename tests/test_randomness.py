import torch

from fedactive.randomness import Randomness


def test_same_purpose_gives_the_same_numbers_and_another_purpose_others():
    a, b = Randomness(1), Randomness(1)
    assert torch.equal(
        torch.rand(5, generator=a.torch("batches", 2)), torch.rand(5, generator=b.torch("batches", 2))
    )
    drawn = {
        a.integer("batches", 2),
        a.integer("batches", 3),
        a.integer("partition"),
        Randomness(2).integer("partition"),
    }
    assert len(drawn) == 4


def test_purposes_do_not_run_into_each_other():
    assert Randomness(1).integer("a", 11) != Randomness(1).integer("a", 1, 1)
    assert Randomness(11).integer("a") != Randomness(1).integer("1/a")


def test_numpy_and_torch_generators_come_from_the_same_integer():
    assert Randomness(3).numpy("x").integers(100) == Randomness(3).numpy("x").integers(100)
    assert 0 <= Randomness(3).integer("x") < 2**63

import torch

from fedactive.federated.weights import to_device, weighted_mean


def test_the_mean_is_weighted_and_whole_numbers_are_rounded():
    one = {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor([3, 3, 0])}
    other = {"w": torch.tensor([5.0, 2.0]), "n": torch.tensor([4, 7, 0])}
    mean = weighted_mean([one, other], [1, 3])
    assert mean["w"].tolist() == [4.0, 2.0]
    assert mean["n"].tolist() == [4, 6, 0]  # 3.75 is nearer to 4
    assert mean["n"].dtype == torch.long
    assert one["w"].tolist() == [1.0, 2.0]


def test_weights_move_to_a_device():
    moved = to_device({"w": torch.ones(2)}, torch.device("meta"))
    assert {name: value.device.type for name, value in moved.items()} == {"w": "meta"}

import torch

from fedactive.query import make_strategy


def test_one_of_each_blob_the_nearest_to_its_mean(make_pool):
    generator = torch.Generator().manual_seed(1)
    blobs = torch.eye(5).repeat_interleave(20, 0)
    x = blobs + 0.05 * torch.randn(blobs.shape, generator=generator)
    pool = make_pool(100, 3, dimensions=5, global_embeddings=x)
    chosen = make_strategy("medoids", "global").select(pool, 5, torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(x).view(5, 20, 5)
    distance = ((unit - unit.mean(1, keepdim=True)) ** 2).sum(2)
    expected = [20 * blob + int(place) for blob, place in enumerate(distance.argmin(1))]
    assert sorted(chosen.indices.tolist()) == expected
    assert torch.allclose((-chosen.scores).sort().values, distance.amin(1).sort().values)

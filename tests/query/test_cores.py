import threading

import pytest
import torch

from fedactive.query.cores import each_on_a_core


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_clients_work_side_by_side_on_one_core_each():
    both = threading.Barrier(2)

    def kernel(points, factor):
        both.wait(timeout=30)  # a client alone would wait in vain
        return factor * points.sum(), torch.get_num_threads()

    found = each_on_a_core(kernel, [torch.ones(2), torch.ones(3)], [1, 10])
    assert found == [(2, 1), (30, 1)]
    assert torch.get_num_threads() == 2


def test_a_mistake_is_passed_on():
    def kernel(points):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        each_on_a_core(kernel, [torch.ones(2), torch.ones(3)])
    assert torch.get_num_threads() == 2

import threading
import time
from concurrent.futures import ThreadPoolExecutor

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


def seen_in_a_kernel(points):
    """For each client: does it work in this thread, on how many cores?"""
    main = threading.current_thread()
    return each_on_a_core(lambda _: (threading.current_thread() is main, torch.get_num_threads()), points)


def test_a_client_alone_has_all_cores():
    assert seen_in_a_kernel([torch.ones(2)]) == [(True, 2)]


def test_clients_elsewhere_than_on_the_cpu_need_no_cores():
    assert seen_in_a_kernel([torch.ones(2), torch.ones(2, device="meta")]) == [(True, 2)] * 2


def test_no_more_clients_at_a_time_than_cores():
    at_work, most, lock = 0, 0, threading.Lock()

    def kernel(_):
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.02)
        with lock:
            at_work -= 1

    each_on_a_core(kernel, [torch.ones(1)] * 6)
    assert most == 2


def test_threads_that_begin_later_have_all_cores():
    each_on_a_core(torch.sum, [torch.ones(2), torch.ones(3)])
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == 2

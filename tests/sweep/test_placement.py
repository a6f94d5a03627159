"""Which GPUs a grid uses, as if this machine had some."""

from __future__ import annotations

import pytest
import torch

from fedactive.errors import ConfigurationError
from fedactive.sweep import here, placement
from fedactive.sweep.here import Here
from fedactive.sweep.job import Job
from fedactive.sweep.placement import (
    find_gpus,
    gpus_among,
    least_busy,
    only_gpu,
    share_cluster,
    share_cores,
    split_devices,
)
from support.commands import cli


@pytest.mark.parametrize(
    ("devices", "count", "gpus"),
    [
        (["auto"], 0, []),
        (["cpu"], 4, []),
        (["auto"], 3, [0, 1, 2]),
        (["cuda"], 3, [0, 1, 2]),
        (["cuda:1"], 3, [1]),
        (["cuda:2", "cuda:0", "cuda:2"], 3, [2, 0]),
    ],
)
def test_cuda_is_all_gpus_and_a_number_is_one(devices, count, gpus):
    assert gpus_among(devices, count) == gpus


@pytest.mark.parametrize("devices", [["cpu", "cuda:0"], ["cuda", "cuda:1"], ["cpu", "cpu"], []])
def test_only_gpus_with_numbers_can_be_several(devices):
    with pytest.raises(ConfigurationError, match="allowed is one device, or GPUs as in cuda:0,cuda:2"):
        gpus_among(devices, 2)


@pytest.mark.parametrize("asked", ["cuda:x", "cuda:0, gpu", "cuda:-1", "CUDA", ["cuda:0", "cuda:"], 1])
def test_a_device_that_makes_no_sense_is_one_sentence(asked, monkeypatch):
    monkeypatch.setattr(placement, "choose_device", torch.device)
    with pytest.raises(ConfigurationError, match=r"allowed is auto, cpu, cuda, or one GPU as in cuda:1$"):
        find_gpus(split_devices(asked))


def test_the_commands_take_several_devices(tmp_path):
    for words in (["compare", "--dataset", "digits"], ["paper", "run", "accuracy"]):
        done = cli(*words, "--device", "cuda:0, cpu", "--runs-dir", tmp_path / "runs", before="import torch; torch.cuda.is_available = lambda: True; torch.cuda.device_count = lambda: 1")  # fmt: skip
        assert done.returncode == 2
        assert (
            done.stderr
            == "fedactive: device: 'cuda:0,cpu' was given, allowed is one device, or GPUs as in cuda:0,cuda:2\n"
        )


def test_gpus_that_torch_cannot_use_do_not_count(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(placement, "choose_device", lambda device: torch.device("cpu"))
    assert find_gpus(["auto"]) == []
    monkeypatch.setattr(placement, "choose_device", lambda device: torch.device("cuda"))
    assert find_gpus(["auto"]) == [0, 1]


def test_runs_go_to_the_gpu_with_the_fewest():
    assert least_busy([0, 1, 2], []) == 0
    assert least_busy([0, 1, 2], [0, 1, 0]) == 2
    assert least_busy([2, 0], [0, 2, 0]) == 2
    placed: list[int] = []
    for _ in range(7):
        placed.append(least_busy([0, 1, 2], placed))
    assert placed == [0, 1, 2, 0, 1, 2, 0]


def test_a_process_sees_its_own_gpu_among_those_that_we_see():
    assert only_gpu(1, None) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert only_gpu(1, "4,6") == {"CUDA_VISIBLE_DEVICES": "6"}
    assert only_gpu(0, "GPU-5a, GPU-7b") == {"CUDA_VISIBLE_DEVICES": "GPU-5a"}


def test_each_gpu_has_its_runs_at_a_time(small, monkeypatch):
    monkeypatch.setattr(placement, "usable_cores", lambda: 16)
    grid = [small(seed=seed, workers=0) for seed in range(1, 21)]
    shared, jobs = share_cores(grid, None, gpus=2)
    assert (jobs, shared[0].workers) == (8, 2)
    assert share_cores(grid, None, gpus=0)[1] == 16
    assert share_cores(grid, 3, gpus=2)[1] == 3


@pytest.mark.parametrize(
    ("runs", "jobs", "cpus", "gpus", "expected"),
    [
        (20, None, 8, 0, (8, 0.0)),
        (3, None, 8, 0, (3, 0.0)),
        (20, None, 64, 2, (8, 1 / 4)),
        (4, None, 64, 2, (4, 1 / 2)),  # two on each, not four on one
        (5, None, 64, 2, (5, 1 / 3)),
        (20, None, 2, 1, (2, 1 / 2)),
        (20, 6, 64, 2, (6, 1 / 3)),
        (20, None, 0, 0, (1, 0.0)),  # machines may join later
    ],
)
def test_a_cluster_is_shared_evenly(runs, jobs, cpus, gpus, expected):
    assert share_cluster(runs, jobs, cpus, gpus) == expected


class FakeCrew:
    """Remembers how it was started; its runs do not end by themselves."""

    alive = True

    def __init__(self, program, log, variables):
        self.threads, self.log, self.gpu = program[1], log.name, variables["CUDA_VISIBLE_DEVICES"]

    def start(self, config):
        return FakeTurn(self)


class FakeTurn:
    def __init__(self, crew):
        self.crew, self.code = crew, None

    def poll(self):
        return self.code


def test_a_grid_on_two_gpus_of_four(small, monkeypatch):
    monkeypatch.setattr(here, "Crew", FakeCrew)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    grid = Here(5, gpus=[1, 3])
    jobs = [Job(small(strategy="random", device="cuda:1", seed=seed), "") for seed in range(1, 7)]
    jobs[0].log.parent.mkdir(parents=True)
    turns = [grid.start(job) for job in jobs[:5]]
    assert [turn.crew.gpu for turn in turns] == ["5", "7", "5", "7", "5"]
    assert {turn.crew.threads for turn in turns} == {3}
    assert [turn.crew.log for turn in turns[:2]] == ["crew-tf32-gpu1.log", "crew-tf32-gpu3.log"]
    assert 'device = "cuda"' in jobs[1].config.read_text()  # the only one that its process sees
    turns[3].code = 0
    assert grid.start(jobs[5]).crew.gpu == "7"

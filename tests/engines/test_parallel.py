"""The parallel engine gives exactly the sequential engine's result, on real data and unequal clients."""

import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch

from fedactive.engines import make_engine
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.errors import RunError
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec

SPEC = ModelSpec("cnn4", (1, 8, 8), 10)
CPU = torch.device("cpu")


def jobs(digits, sizes=(130, 64, 1, 0, 33), **changes):
    start = SPEC.initial_weights(torch.Generator().manual_seed(0))
    made = []
    for k, size in enumerate(sizes):
        samples = torch.arange(k, k + size)
        steps = 2 * (-(-size // 64))
        values = {"epochs": 2, "rates": (0.01,) * steps, "shuffle": 1000 + k} | changes
        made.append(LocalJob(start=start, samples=samples, labels=digits.train_labels[samples], **values))
    return made


@pytest.fixture(scope="module", params=["fp32", "bf16"])
def engines(request, digits):
    recipe = Recipe(precision=request.param)
    with (
        SequentialEngine(SPEC, digits, recipe, CPU) as sequential,
        ParallelEngine(SPEC, digits, recipe, workers=2) as parallel,
    ):
        yield sequential, parallel


def drift():
    weights = SPEC.initial_weights(torch.Generator().manual_seed(9))
    return {name: value for name, value in weights.items() if value.dim() and "running" not in name}


@pytest.mark.parametrize(
    "changes",
    [{}, {"proximal": 0.1}, {"drift": drift()}, {"stop_accuracy": 0.2, "epochs": 2}],
    ids=["plain", "proximal", "drift", "stop"],
)
def test_parallel_equals_sequential_bit_for_bit(engines, digits, changes):
    sequential, parallel = engines
    work = jobs(digits, **changes)
    for a, b in zip(sequential.train(work), parallel.train(work), strict=True):
        assert a.steps == b.steps
        assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)


def test_the_weights_after_each_epoch_come_back_from_workers(engines, digits):
    sequential, parallel = engines
    for one, other in zip(
        *(e.train(jobs(digits, each_epoch=True)) for e in (sequential, parallel)), strict=True
    ):
        assert len(one.epochs) == len(other.epochs)
        for a, b in zip(one.epochs, other.epochs, strict=True):
            assert all(torch.equal(a[name], b[name]) for name in a)


def test_training_changes_parameters_and_buffers_and_leaves_the_start_alone(engines, digits):
    sequential, _ = engines
    (job,) = jobs(digits, sizes=(100,))
    before = {name: value.clone() for name, value in job.start.items()}
    (result,) = sequential.train([job])
    assert all(torch.equal(job.start[name], before[name]) for name in before)
    assert not torch.equal(result.weights["head.weight"], before["head.weight"])
    assert not torch.equal(result.weights["blocks.0.norm.running_mean"], before["blocks.0.norm.running_mean"])


def test_inference_is_the_same_whatever_the_batch(engines, digits):
    sequential, _ = engines
    weights = jobs(digits, sizes=(1,))[0].start
    logits, z = sequential.infer(weights, digits.test_inputs)
    some, _ = sequential.infer(weights, digits.test_inputs[:7])
    assert logits.shape == (len(digits.test_labels), 10)
    assert z.shape[1] == 64
    assert torch.allclose(logits[:7], some, atol=1e-2 if sequential.recipe.precision == "bf16" else 1e-5)
    assert sequential.infer(weights, digits.test_inputs[:0])[0].shape == (0, 10)


def test_torch_threads_are_given_back(engines, digits):
    sequential, _ = engines
    before = torch.get_num_threads()
    sequential.train(jobs(digits, sizes=(10,)))
    assert torch.get_num_threads() == before


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are counted in Linux's /proc")
@pytest.mark.parametrize("which", [0, 1], ids=["the first", "a copy"])
def test_a_worker_that_dies_is_reported_in_one_sentence(digits, which):
    with ParallelEngine(SPEC, digits, Recipe(), workers=2) as engine:
        engine.train(jobs(digits))
        first = engine.process.pid
        workers = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        assert len(workers) == 2
        os.kill(workers[which], signal.SIGKILL)
        with pytest.raises(RunError, match="a worker process died"):
            engine.train(jobs(digits))


def test_an_error_in_a_worker_is_not_lost_and_the_engine_goes_on(engines, digits):
    _, parallel = engines
    with pytest.raises(RuntimeError, match="IndexError"):
        parallel.train(jobs(digits, sizes=(64,), rates=()))
    assert parallel.train(jobs(digits, sizes=(64,)))[0].steps == 2


def test_a_kill_can_leave_no_copy_of_the_images(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ParallelEngine(SPEC, digits, Recipe(), workers=1) as engine:
        engine.train(jobs(digits, sizes=(10,)))
        assert list(tmp_path.iterdir()) == []


def test_a_worker_whose_main_process_is_killed_in_the_middle_of_a_message_ends_quietly():
    ours, theirs = Pipe()
    program = f"from fedactive.engines.worker import main; main([{theirs.fileno()}], 0)"
    worker = subprocess.Popen(
        [sys.executable, "-c", program], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True
    )
    theirs.close()
    os.write(ours.fileno(), (1000).to_bytes(4, "big") + b"the first of a thousand bytes")
    ours.close()
    assert worker.communicate(timeout=60) == (None, "")
    assert worker.returncode == 0


def test_auto_picks_the_engine_for_the_machine(digits):
    with make_engine(SPEC, digits, Recipe(), "cpu", workers=2, clients=10) as engine:
        assert isinstance(engine, ParallelEngine)
        assert len(engine.workers) == 2
    with make_engine(SPEC, digits, Recipe(), "cpu", workers=8, clients=1) as engine:
        assert isinstance(engine, SequentialEngine)

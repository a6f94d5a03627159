"""The laboratory's clients on Flower's simulation engine, with a real Ray on this machine."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from fedactive.client import Client
from fedactive.engines import EngineShelf
from fedactive.errors import ConfigurationError, UserError
from fedactive.federated.algorithm import Server, make_algorithm
from fedactive.laboratory import run as laboratory
from fedactive.laboratory.ray_worker import Task, pack, query, run_task, summarise, train, unpack
from fedactive.laboratory.simulation import Simulation
from fedactive.laboratory.split import split
from fedactive.memory import Memory
from fedactive.query import STRATEGIES
from fedactive.record.run_tables import RunTables
from support.networks import write_onnx
from support.traps import set_traps

needs_ray = pytest.mark.skipif(
    not find_spec("ray"), reason="Ray is missing: pip install 'fedactive[simulation]'"
)


@needs_ray
def test_ten_clients_on_ray_are_the_laboratorys(small, tmp_path):
    """With what FedNova sends travelling along; and what Ray began, the laboratory goes on with."""
    here = small(clients=10, rounds=2, fl_rounds=2, strategy="logo", algorithm="fednova", participation=0.7)
    there = replace(here, federation="flower-simulation", workers=2, runs_dir=tmp_path / "ray")
    config = tmp_path / "there.toml"
    config.write_text(there.to_toml())
    imported = set_traps(tmp_path / "traps")
    # In a process of its own: Ray leaves some of its own in the one that started it.
    command = [sys.executable, "-P", "-m", "fedactive", "run", "--config", str(config)]
    done = subprocess.run(command, cwd=imported.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert not imported.exists(), imported.read_text()
    assert_same(RunTables(there.folder), laboratory.run(here))

    further = {"rounds": 3, "federation": "simulation"}
    assert_same(laboratory.run(replace(there, **further)), laboratory.run(replace(here, **further)))


def assert_same(result, expected):
    assert result.folder.name == expected.folder.name
    pd.testing.assert_frame_equal(result.selections, expected.selections, rtol=1e-4)
    pd.testing.assert_frame_equal(result.metrics, expected.metrics, rtol=1e-4)
    assert "local" in set(result.metrics["model"])


def test_a_client_comes_back_from_a_worker_as_it_would_be_here(small, digits):
    """With SCAFFOLD's variates travelling to and fro, as the messages carry them."""
    experiment = small(algorithm="scaffold", strategy="random")
    client = split(experiment, digits.train_labels, 10).clients(experiment)[1]
    client.label(client.first, digits.train_labels[client.first])
    engine = EngineShelf().get(experiment, digits)
    algorithm = make_algorithm("scaffold")
    start = engine.spec.initial_weights(torch.Generator().manual_seed(1))
    server = algorithm.start_server(start, [name for name, _ in engine.model.named_parameters()])
    client.remember(algorithm.client_start(server))
    task = unpack(pack(Task(client.at_rest(), server, al_round=1, fl_round=0)))
    own, memory, update = unpack(pack(run_task(train, task)))
    assert memory == Memory()
    expected = client.train(engine, server, 1, 0)
    for name, value in expected.state["control"].items():
        assert torch.equal(value, update.state["control"][name])
        assert torch.equal(client.own["control"][name], own["control"][name])


def through_messages(kind, tasks):
    """What `Flower.ask` does with workers, without Ray."""
    works = {"query": query, "query.summary": summarise, "train": train}
    sizes.append(max(len(pickle.dumps(task.client.memory)) for task in tasks.values()))
    return [unpack(pack(run_task(works[kind], unpack(pack(task))))) for task in tasks.values()]


sizes = []


@needs_ray
@pytest.mark.parametrize("strategy", ["tmfal", "chase", "fairfal", "auto"])
def test_what_clients_remember_and_say_goes_to_workers_and_back(small, tmp_path, monkeypatch, strategy):
    """The same run, and no memory travels to where a client only trains."""
    from fedactive.laboratory import on_ray

    settings = {"strategy": strategy, "rounds": 3, "fl_rounds": 4, "local_epochs": 2, "participation": 0.7}
    settings["alpha"] = 100.0  # so that clients are alike
    here = small(**settings)
    there = small(**settings, federation="flower-simulation", runs_dir=tmp_path / "there")

    @contextmanager
    def without_ray(experiment, dealt, engine):
        yield on_ray.FlowerSimulation(experiment, dealt, engine, SimpleNamespace(ask=through_messages))

    monkeypatch.setattr(on_ray, "flower_simulation", without_ray)
    sizes.clear()
    far, near = laboratory.run(there), laboratory.run(here)
    pd.testing.assert_frame_equal(far.selections, near.selections, check_exact=True)
    summaries = {"fairfal": 1, "auto": 2}.get(strategy, 0)  # once in a run, or in each round with a model
    assert len(sizes) == 3 * 4 + 2 + summaries  # trainings, queries
    trainings = sizes[:4] + sizes[-4:]
    assert max(trainings) < 1000
    assert (max(sizes) > 10_000) == (strategy in ("tmfal", "chase"))


def test_a_worker_has_what_an_objective_needs(small, digits):
    experiment = small(objective="kcfu", strategy="random")
    client = split(experiment, digits.train_labels, 10).clients(experiment)[1]
    client.label(client.first, digits.train_labels[client.first])
    engine = EngineShelf().get(experiment, digits)
    server = Server(engine.spec.initial_weights(torch.Generator().manual_seed(1)))
    *_, update = unpack(pack(run_task(train, unpack(pack(Task(client.at_rest(), server, 1, fl_round=3))))))
    expected = client.train(engine, server, 1, 3)
    assert all(torch.equal(value, update.weights[name]) for name, value in expected.weights.items())


@needs_ray
def test_clients_that_agree_on_a_query_do_so_here(small, digits):
    """Workers would each be alone."""
    from fedactive.laboratory.on_ray import FlowerSimulation  # which imports Ray

    experiment = small(strategy="fedtypiclust", model="linear", budget="6/client")
    engine = EngineShelf().get(experiment, digits)
    dealt = split(experiment, digits.train_labels, 10)
    weights = engine.spec.initial_weights(torch.Generator().manual_seed(1))
    there = FlowerSimulation(experiment, dealt, engine, flower=None).query(2, weights)
    here = Simulation(experiment, dealt, engine).query(2, weights)
    assert [q.samples.tolist() for q in there.queries] == [q.samples.tolist() for q in here.queries]


def test_sums_come_back_from_a_worker_as_they_would_be_here(small, digits):
    experiment = small(algorithm="ridge", model="linear", strategy="random")
    client = split(experiment, digits.train_labels, 10).clients(experiment)[1]
    client.label(client.first, digits.train_labels[client.first])
    engine, algorithm = EngineShelf().get(experiment, digits), make_algorithm("ridge")
    server = algorithm.start_server(engine.spec.initial_weights(torch.Generator().manual_seed(1)), ())
    *_, update = unpack(pack(run_task(train, unpack(pack(Task(client.at_rest(), server, 1))))))
    expected = client.train(engine, server, 1, 0)
    assert update.weights == {}
    assert update.samples == expected.samples == len(client.first)
    torch.testing.assert_close(update.state, expected.state, rtol=0, atol=0)


def test_a_workers_answer_may_be_a_users_mistake(small, tmp_path):
    nowhere = small(dataset="cifar10", data_dir=tmp_path)
    client = Client(nowhere, 0, pool=torch.arange(5), first=torch.arange(2), budgets=(2,))
    task = Task(client, server=Server({}), al_round=2)
    answer = unpack(pack(run_task(query, unpack(pack(task)))))
    assert isinstance(answer, UserError)
    assert "fedactive data get cifar10" in str(answer)


@needs_ray
@pytest.mark.parametrize(
    "use", [{"strategy": "mine"}, {"strategy": "logo", "strategy_options": "micro=mine"}], ids=str
)
def test_a_strategy_of_a_file_is_refused_for_workers_do_not_have_it(small, monkeypatch, use):
    mine = type("Mine", (STRATEGIES["entropy"],), {"__module__": "fedactive_plugin_mine"})
    monkeypatch.setitem(STRATEGIES.classes, "mine", mine)
    experiment = small(**use, federation="flower-simulation")
    with pytest.raises(ConfigurationError, match="installed package"):
        laboratory.run(experiment)
    assert not experiment.runs_dir.exists()


@needs_ray
def test_workers_find_the_file_of_a_backbone_from_another_folder(small, tmp_path, monkeypatch):
    from fedactive.laboratory.on_ray import with_whole_paths

    write_onnx(tmp_path / "a.onnx")
    monkeypatch.chdir(tmp_path)
    experiment = small(backbone="a.onnx")
    there = with_whole_paths(experiment)
    assert there.backbone == str(tmp_path / "a.onnx")
    assert there.hash == experiment.hash
    assert with_whole_paths(small(backbone="efficientnet_lite0")).backbone == "efficientnet_lite0"


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:9", "nonsense"])
def test_a_cluster_that_is_not_there_is_told_at_once(small, monkeypatch, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigurationError, match=r"RAY_ADDRESS: .* HOST:PORT of a running Ray"):
        laboratory.run(small(federation="flower-simulation"))


def test_without_ray_one_sentence_says_how_to_get_it(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "fedactive.laboratory.on_ray", raising=False)
    experiment = small(federation="flower-simulation")
    with pytest.raises(UserError, match=r"ray is missing: pip install 'fedactive\[simulation\]' brings it"):
        laboratory.run(experiment)
    assert not experiment.runs_dir.exists()

"""What a worker of Flower's simulation engine runs: the laboratory's simulation of one client.

Flower gives a client to whichever worker is free, so a worker remembers nothing of it: all that the client is
comes with the message, and what it becomes goes back. The dataset and the model stay.

Messages are pickled, which is how Ray carries them in any case; they never leave the user's own cluster.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from fedactive.data import load
from fedactive.engines import Engine
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.federated.algorithm import Server, Update
from fedactive.federated.weights import Weights, placed
from fedactive.federation import QueryPhase
from fedactive.laboratory.run import EngineShelf
from fedactive.laboratory.simulation import Simulation
from fedactive.laboratory.split import Split, split

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Task:
    """A client at the beginning of a query or an FL round; tensors are on the CPU."""

    experiment: Experiment
    client: int
    known: Tensor  # D_k
    own: Weights  # the algorithm's state on the client
    server: Server
    al_round: int
    fl_round: int = 0


def query(task: Task) -> QueryPhase:
    """The client's query, in which it is client 0."""
    client, server = wake(task)
    return client.query(task.al_round, server.weights)


def train(task: Task) -> tuple[Weights, Update]:
    """The client's own new state, and its update."""
    client, server = wake(task)
    (update,) = client.train(server, task.al_round, task.fl_round, [0])
    return placed(client.own[0], CPU), moved(update, CPU)


def wake(task: Task) -> tuple[Simulation, Server]:
    """The task's client as it was, alone, and the server's state where it trains."""
    clients, engine = stage(task.experiment)
    k = task.client
    alone = Split([clients.pools[k]], [clients.first[k]], clients.budget)
    simulation = Simulation(task.experiment, alone, engine, [k])
    simulation.known = [task.known]
    return simulation, simulation.restore(task.server, [task.own])


@lru_cache(maxsize=1)  # once per worker and run
def stage(experiment: Experiment) -> tuple[Split, Engine]:
    dataset = load(experiment.dataset, experiment.data_dir, experiment.dataset_sha256)
    clients = split(experiment, dataset.train_labels, len(dataset.classes))
    return clients, EngineShelf().get(experiment, dataset)


def moved(update: Update, device: torch.device) -> Update:
    return Update(update.samples, placed(update.weights, device), placed(update.control, device))


def pack(content: object) -> RecordDict:
    return RecordDict({"content": ConfigRecord({"pickle": pickle.dumps(content)})})


def unpack(records: RecordDict) -> Any:
    content = records.config_records["content"]["pickle"]
    assert isinstance(content, bytes)
    return pickle.loads(content)


def outcome(work: Callable[[Task], object], task: Task) -> object:
    """What the work gives; a user's mistake, say a dataset that this machine does not have, is an answer."""
    try:
        return work(task)
    except UserError as error:
        return UserError(str(error))


def replying(work: Callable[[Task], object]) -> Callable[[Message, Context], Message]:
    """As Flower calls it."""
    return lambda message, _: Message(pack(outcome(work, unpack(message.content))), reply_to=message)


app = ClientApp()
app.query()(replying(query))
app.train()(replying(train))

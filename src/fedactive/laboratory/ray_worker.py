"""What a worker of Flower's simulation engine runs: one client, woken up for one task.

Flower gives a client to whichever worker is free, so a worker keeps no client: the client comes with the
message, and its new state goes back. The dataset and the model stay.

Messages are pickled, as Ray does in any case; they never leave the user's own cluster.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedactive.client import CPU, Client
from fedactive.engines import Engine, EngineShelf
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.federated.algorithm import Server, State, Update, state_to_device
from fedactive.federation import QueryPhase
from fedactive.laboratory.inputs import load_inputs
from fedactive.memory import Memory, to_device


@dataclass(frozen=True)
class Task:
    """A client at the beginning of a query or an FL round; tensors are on the CPU."""

    client: Client
    server: Server  # as clients see it
    al_round: int
    fl_round: int = 0
    agreed: list[float] | None = None  # the mean of what clients said of themselves


def query(task: Task) -> QueryPhase:
    """Query for the client; the answer calls it client 0."""
    client, engine, server = wake(task)
    return client.query(engine, task.al_round, server.weights, task.agreed)


def summarise(task: Task) -> list[float] | None:
    """Return what the strategy has the client say of itself."""
    client, engine, server = wake(task)
    return client.summarise(engine, task.al_round, server.weights)


def train(task: Task) -> tuple[State, Memory, Update]:
    """Train the client; return its own new state, what it is to remember, and its update."""
    client, engine, server = wake(task)
    update = client.train(engine, server, task.al_round, task.fl_round)
    resting = client.at_rest()
    return resting.own, resting.memory, update.to(CPU)


def wake(task: Task) -> tuple[Client, Engine, Server]:
    """Return the task's client, an engine to serve it, and the server's state on the engine's device."""
    engine = engine_of(task.client.experiment)
    own = state_to_device(task.client.own, engine.device)
    (memory,) = to_device([task.client.memory], engine.device)
    client = replace(task.client, own=own, memory=memory)
    return client, engine, task.server.to(engine.device)


@lru_cache(maxsize=1)  # once per worker and run
def engine_of(experiment: Experiment) -> Engine:
    return EngineShelf().get(experiment, load_inputs(experiment))


def pack(content: object) -> RecordDict:
    return RecordDict({"content": ConfigRecord({"pickle": pickle.dumps(content)})})


def unpack(records: RecordDict) -> Any:
    content = records.config_records["content"]["pickle"]
    assert isinstance(content, bytes)
    return pickle.loads(content)


def run_task(work: Callable[[Task], object], task: Task) -> object:
    """Do the work; return a UserError as an answer, such as a dataset that this machine lacks."""
    try:
        return work(task)
    except UserError as error:
        return UserError(str(error))


def make_handler(work: Callable[[Task], object]) -> Callable[[Message, Context], Message]:
    """Make the function that Flower calls with a message and that returns the reply."""
    return lambda message, _: Message(pack(run_task(work, unpack(message.content))), reply_to=message)


app = ClientApp()
app.query()(make_handler(query))
app.query("summary")(make_handler(summarise))
app.train()(make_handler(train))

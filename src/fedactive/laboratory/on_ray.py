"""The laboratory's clients on Flower's simulation engine: Ray workers, on this machine or on a cluster.

The loop, the run folder and the labels stay in this process; queries and training go to the workers.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from flwr.app import Context, Message
from flwr.common.constant import ErrorCode
from flwr.server.superlink.fleet.vce.backend.backend import BackendConfig
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fedactive.backbones.find import is_file
from fedactive.client import CPU
from fedactive.data.own_file import has_path
from fedactive.engines import Engine, usable_cores
from fedactive.errors import ConfigurationError, RunError, UserError
from fedactive.experiment import Experiment
from fedactive.federated.algorithm import Server, Update, state_to_device
from fedactive.federated.weights import Weights
from fedactive.federation import Query, QueryPhase, average
from fedactive.laboratory.ray_worker import Task, app, pack, unpack
from fedactive.laboratory.simulation import Simulation
from fedactive.laboratory.split import Split
from fedactive.memory import Memory
from fedactive.registry import (
    AUGMENTATIONS,
    BACKBONES,
    PLUGIN_MODULE,
    REGISTRIES,
    STRATEGIES,
    Registry,
    split_names,
)

CLUSTER = "RAY_ADDRESS"  # the environment variable of Ray itself
SECONDS_BETWEEN_POLLS = 0.05
SECONDS_TO_CONNECT = 5.0


class FlowerSimulation(Simulation):
    """A `Federation` whose clients query and train on Flower's workers."""

    def __init__(self, experiment: Experiment, split: Split, engine: Engine, flower: Flower) -> None:
        super().__init__(experiment, split, engine)
        self.flower = flower
        # The experiment for a worker: it runs elsewhere, with a core or a GPU of its own.
        self.remote = replace(with_whole_paths(experiment), workers=1, device=engine.device.type)

    def query(self, al_round: int, weights: Weights | None, agreed: list[float] | None = None) -> QueryPhase:
        strategy = STRATEGIES[self.experiment.strategy]
        if weights is None or strategy.coordinated:
            return super().query(al_round, weights, agreed)  # here, where all clients are
        everyone = range(self.clients)
        if strategy.numbers and agreed is None:
            agreed = average(self.send("query.summary", everyone, Server(weights), al_round))
        phases: list[QueryPhase] = self.send("query", everyone, Server(weights), al_round, agreed=agreed)
        seconds: dict[str, float] = {}
        for phase in phases:  # summed over clients, as if they worked one after the other
            for name, value in phase.seconds.items():
                seconds[name] = seconds.get(name, 0.0) + value
        return QueryPhase(
            [Query(k, q.samples, q.scores) for k, phase in enumerate(phases) for q in phase.queries],
            [evaluation for phase in phases for evaluation in phase.local_only],
            seconds,
            None if strategy.tells_each_round else agreed,
        )

    def train(
        self, server: Server, al_round: int, fl_round: int, participants: Sequence[int]
    ) -> list[Update]:
        updates = []
        replies = self.send("train", participants, self.algorithm.client_view(server), al_round, fl_round)
        for k, (own, learnt, update) in zip(participants, replies, strict=True):
            member = self.members[k]
            member.remember(state_to_device(own, self.engine.device))
            member.memory = member.memory.add(learnt)
            updates.append(update.to(self.engine.device))
        return updates

    def send(
        self,
        kind: str,
        clients: Iterable[int],
        sent: Server,
        al_round: int,
        fl_round: int = 0,
        agreed: list[float] | None = None,
    ) -> list[Any]:
        """Send a task to the workers of these clients; return their answers in the same order."""
        plain = sent.to(CPU)
        tasks = {}
        for k in clients:
            # What a client remembers is for queries. To training only what it learns anew is added.
            own = replace(self.members[k], memory=Memory()) if kind == "train" else self.members[k]
            client = replace(own.at_rest(), experiment=self.remote)
            tasks[k] = Task(client, plain, al_round, fl_round, agreed)
        return self.flower.ask(kind, tasks)


class Flower:
    """Flower's simulation engine in a second thread: the loop, and Ctrl-C, stay in the main one."""

    def __init__(self, clients: int, gpu: bool) -> None:
        self.clients = clients
        self.backend: BackendConfig = {"client_resources": {"num_cpus": 1, "num_gpus": float(gpu)}}
        self.grid: Grid | None = None
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.run)

    def start(self) -> None:
        self.thread.start()
        while len(self.nodes()) < self.clients:
            self.wait()

    def stop(self) -> None:
        self.over.set()
        self.thread.join()

    def run(self) -> None:
        server_app = ServerApp()

        @server_app.main()
        def main(grid: Grid, context: Context) -> None:
            self.grid = grid
            self.over.wait()

        try:
            run_simulation(server_app, app, self.clients, backend_config=self.backend)
        except Exception as failure:
            self.failure = failure
        finally:
            self.over.set()

    def nodes(self) -> list[int]:
        return sorted(self.grid.get_node_ids()) if self.grid else []

    def ask(self, kind: str, tasks: Mapping[int, Task]) -> list[Any]:
        """Send these tasks; return the replies in the same order."""
        assert self.grid is not None
        nodes = self.nodes()
        messages = [Message(pack(task), nodes[k], kind) for k, task in tasks.items()]
        sent = list(self.grid.push_messages(messages))
        replies: dict[str, Any] = {}
        while len(replies) < len(sent):
            self.wait()
            for message in self.grid.pull_messages([name for name in sent if name not in replies]):
                if message.has_error() and message.error.code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION:
                    raise RuntimeError(f"a worker failed:\n{message.error.reason}")
                if message.has_error():
                    raise RunError("a Ray worker died, perhaps for lack of memory; the same command resumes")
                reply = unpack(message.content)
                if isinstance(reply, UserError):
                    raise reply
                replies[message.metadata.reply_to_message_id] = reply
        return [replies[name] for name in sent]

    def wait(self) -> None:
        time.sleep(SECONDS_BETWEEN_POLLS)
        if self.over.is_set():
            raise UserError(f"Flower's simulation engine stopped: {first_cause(self.failure)}")


def with_whole_paths(experiment: Experiment) -> Experiment:
    """Return the experiment for a process in another folder: its data lie at the same path there."""
    name = experiment.dataset
    dataset = str(Path(name).resolve()) if has_path(name) else name
    backbone = experiment.backbone
    if is_file(backbone):
        backbone = str(Path(backbone).resolve())
    return replace(experiment, dataset=dataset, backbone=backbone, data_dir=experiment.data_dir.resolve())


def first_cause(failure: BaseException | None) -> BaseException | None:
    while failure is not None and failure.__cause__ is not None:
        failure = failure.__cause__
    return failure


@contextmanager
def flower_simulation(experiment: Experiment, split: Split, engine: Engine) -> Iterator[FlowerSimulation]:
    """Make the clients on Flower's workers, which end with the block."""
    start_ray(experiment.workers)
    flower = Flower(experiment.clients, engine.device.type == "cuda")
    try:
        flower.start()
        yield FlowerSimulation(experiment, split, engine, flower)
    finally:
        flower.stop()
        ray.shutdown()  # Flower also does this, but only if it had started


def check(experiment: Experiment) -> None:
    """Refuse what cannot work on Flower's workers, before any work."""
    for registry in (*REGISTRIES, BACKBONES):
        chosen, text = (getattr(experiment, f"{registry.kind}{end}") for end in ("", "_options"))
        for name in registry.parts_of(chosen, text) if chosen in registry else ():
            refuse_plugin_file(registry, name)
    for name in split_names(experiment.augment):
        refuse_plugin_file(AUGMENTATIONS, name)
    check_cluster()


def refuse_plugin_file(registry: Registry, name: str) -> None:
    if registry[name].__module__.startswith(PLUGIN_MODULE):
        raise ConfigurationError(
            registry.kind, name, "one of an installed package: Flower's workers load no plugin files"
        )


def check_cluster() -> None:
    """Refuse an address at which no Ray answers."""
    if cluster := os.environ.get(CLUSTER):
        host, _, port = cluster.rpartition(":")
        try:
            socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()  # Ray would try forever
        except (OSError, ValueError):
            raise ConfigurationError(CLUSTER, cluster, "HOST:PORT of a running Ray") from None


def start_ray(workers: int) -> None:
    """Join the cluster with its own resources; without one, start Ray here with a core per worker."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # we report errors ourselves, once
    # Workers without a GPU run on device cpu, so Ray need not hide the GPUs, nor warn about that.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cluster = os.environ.get(CLUSTER)
    where = {"address": cluster} if cluster else {"address": "local", "num_cpus": workers or usable_cores()}
    with chdir("/"):  # Ray lets its workers import from the current directory first, whatever lies there
        ray.init(**where, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)

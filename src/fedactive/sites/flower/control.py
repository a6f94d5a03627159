"""Control the coordinator's own SuperLink: admit and dismiss sites, start and stop runs."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto, user_config_from_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.constant import NodeStatus
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedactive import __version__
from fedactive.errors import UserError

# Flower sends an app along with a run. Ours is only a name: the server part is the coordinator's installed
# fedactive, and sites run what they have installed themselves (runner.py).
APP = f"""
[project]
name = "fedactive"
version = "{__version__}"
license = "Apache-2.0"
dependencies = ["flwr==1.41.0"]

[tool.flwr.app]
publisher = "fedactive"

[tool.flwr.app.components]
serverapp = "fedactive.sites.coordinator.server_app:app"
clientapp = "fedactive.sites.coordinator.server_app:app"

[tool.flwr.app.config]
plan = ""
superlink = 0
"""
ALL_RUNS = 1_000_000  # by default Flower lists twenty
FINISHED = "finished"


class Control:
    def __init__(self, address: str, authority: Path) -> None:
        self.client = ControlHttpClient.from_server_address(
            address,
            insecure=False,
            root_certificates=authority.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="fedactive")],
        )

    def close(self) -> None:
        self.client.close()

    def wait(self, given_up: Callable[[], bool]) -> bool:
        """Wait until the SuperLink answers; False if that is given up before, as when its process ends."""
        while not given_up():
            try:
                self.nodes()
                return True
            except httpx.TransportError:
                time.sleep(0.2)
        return False

    def nodes(self) -> Iterable[NodeInfo]:
        """All nodes, also those that were dismissed."""
        nodes: Iterable[NodeInfo] = self.client.ListNodes(ListNodesRequest()).nodes_info
        return nodes

    def admit(self, public_key: bytes, name: str) -> int:
        """Register a key, and return the id of its node. Flower never forgets a key."""
        with explain_errors():
            for node in self.nodes():
                if node.public_key == public_key:
                    if node.status == NodeStatus.UNREGISTERED:
                        raise UserError("this key was dismissed; the site needs a new one")
                    return int(node.node_id)
            request = RegisterNodeRequest(public_key=public_key, name=name)
            return int(self.client.RegisterNode(request).node_id)

    def dismiss(self, node: int) -> None:
        """Unregister a node: its SuperNode ends, and is refused from now on."""
        with explain_errors():
            if any(n.node_id == node and n.status != NodeStatus.UNREGISTERED for n in self.nodes()):
                self.client.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def start(self, plan: str, superlink: int) -> int:
        """Start a Flower run of this plan and return its id; `superlink` is the SuperLink's process id."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Flower's, about what it calls itself
            content, _ = build_fab_from_files({"pyproject.toml": APP.encode()})
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        config = user_config_to_proto({"plan": plan, "superlink": superlink})
        with explain_errors():
            request = StartRunRequest(fab=fab_to_proto(fab), override_config=config)
            return int(self.client.StartRun(request).run_id)

    def going_on(self, plan: str) -> dict[int, int]:
        """The Flower runs of this plan that have not ended, each with the SuperLink that it began on."""
        with explain_errors():
            runs = self.client.ListRuns(ListRunsRequest(limit=ALL_RUNS)).run_dict
        found: dict[int, int] = {}
        for run, kept in runs.items():
            config = user_config_from_proto(kept.override_config)
            if kept.status.status != FINISHED and config.get("plan") == plan:
                found[run] = int(config.get("superlink", 0))
        return found

    def stop(self, run: int) -> None:
        with explain_errors():
            self.client.StopRun(StopRunRequest(run_id=run))

    def is_going_on(self, run: int) -> bool:
        with explain_errors():
            runs = self.client.ListRuns(ListRunsRequest(run_id=run)).run_dict
        return run in runs and runs[run].status.status != FINISHED


@contextmanager
def explain_errors() -> Iterator[None]:
    """Raise UserError with a sentence for what Flower refuses, or if it does not answer."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        try:
            detail = error.response.json()["detail"]
        except (ValueError, KeyError, TypeError):
            detail = f"error {error.response.status_code}"
        raise UserError(f"Flower refused: {detail}") from None
    except httpx.TransportError as error:
        question = "is `fedactive coordinator serve` running?"
        raise UserError(f"the coordinator's SuperLink does not answer ({error}); {question}") from None

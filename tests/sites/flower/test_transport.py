"""What is lost on its way is sent again; over Flower's own store of messages, with one site."""

from __future__ import annotations

import secrets
import threading

import pytest
from flwr.app import Message
from flwr.common.constant import (
    HEARTBEAT_INTERVAL_INF,
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SUPERLINK_NODE_ID,
)
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, TaskType
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid.inmemory_grid import InMemoryGrid

from fedactive.sites.flower import pace, transport
from fedactive.sites.flower.transport import FlowerTransport
from fedactive.sites.flower.wire import PING, encode_reply
from fedactive.sites.messages import Reply, Request

REQUEST = {0: Request("hello", "a-run")}


class SuperNode(threading.Thread):
    """Takes one message after another, as Flower's does; the first `loses` of them, or their replies, are lost."""

    def __init__(self, state, node, loses):
        super().__init__(daemon=True)
        self.state, self.node, self.loses = state, node, loses
        self.taken = []
        self.may_work, self.stopped = threading.Event(), threading.Event()
        self.may_work.set()

    def run(self):
        while not self.stopped.wait(0.01):
            for message in self.state.get_message_ins(self.node, 1):
                self.taken.append(message.metadata.message_type)
                if message.metadata.message_type == PING:
                    reply = Reply()
                elif self.loses:
                    self.loses -= 1
                    continue
                else:
                    self.may_work.wait()
                    reply = Reply({"images": 7})
                answer = Message(encode_reply(reply), reply_to=message)
                answer.metadata.__dict__["_message_id"] = secrets.token_hex(8)
                assert self.state.store_message_res(answer)


@pytest.fixture
def connect(monkeypatch):
    """A transport to one site, which loses so many messages."""
    monkeypatch.setattr(transport, "FIRST_PING", 0.2)
    monkeypatch.setattr(pace, "SHORTEST_PAUSE", 0.02)
    started = []

    def connect(loses):
        factory = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())
        state = factory.state()
        assert isinstance(state, InMemoryLinkState)
        run = state.create_run(
            None, None, None, {}, "@none/default", None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        kept = state.get_run_info(run_ids=[run])[0]
        for who, number in (("run", run), ("node", SUPERLINK_NODE_ID), ("task", kept.primary_task_id)):
            monkeypatch.setattr(TaskIdentity, f"_{who}_id", number)  # as in the process of a run
        grid = InMemoryGrid(factory)
        grid.set_run(kept)
        node = state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, b"key", HEARTBEAT_INTERVAL_INF)
        state.activate_node(node, HEARTBEAT_INTERVAL_INF)
        supernode = SuperNode(state, node, loses)
        supernode.start()
        started.append(supernode)
        return FlowerTransport(grid, [node]), supernode

    yield connect
    for supernode in started:
        supernode.stopped.set()
        supernode.may_work.set()
        supernode.join()


@pytest.mark.parametrize("loses", [0, 1, 2])
def test_a_message_that_is_lost_is_sent_again(connect, loses):
    there, supernode = connect(loses)
    assert there.ask(REQUEST, 60)[0].values == {"images": 7}
    assert supernode.taken.count("query.hello") == 1 + loses


def test_a_site_that_is_at_work_is_not_asked_twice(connect):
    there, supernode = connect(0)
    supernode.may_work.clear()
    threading.Timer(1.0, supernode.may_work.set).start()  # after some pings
    assert there.ask(REQUEST, 60)[0].values == {"images": 7}
    assert there.ask(REQUEST, 60)[0].values == {"images": 7}
    assert PING in supernode.taken
    assert supernode.taken.count("query.hello") == 2


def test_a_site_that_never_answers_is_left_out_when_patience_ends(connect):
    there, _ = connect(10**6)
    assert there.ask(REQUEST, 0.5) == {}

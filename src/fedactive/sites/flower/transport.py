"""The coordinator's end: requests to sites through Flower's grid."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from fedactive.sites.flower.wire import MESSAGE_TYPES, decode_reply, encode_request
from fedactive.sites.messages import PROBLEMS, UNREADABLE, Reply, Request

log = logging.getLogger(__name__)

SECONDS_BETWEEN_POLLS = 0.3
SPARE_SECONDS = 600.0  # by which a message outlives our patience


class FlowerTransport:
    """Sites are numbered by the order of their Flower nodes in `nodes`."""

    def __init__(self, grid: Grid, nodes: Sequence[int]) -> None:
        self.grid = grid
        self.nodes = nodes

    def online(self) -> set[int]:
        there = set(self.grid.get_node_ids())
        return {k for k, node in enumerate(self.nodes) if node in there}

    def ask(self, requests: Mapping[int, Request], seconds: float) -> dict[int, Reply]:
        messages = [
            Message(
                encode_request(request),
                self.nodes[k],
                MESSAGE_TYPES[request.kind],
                ttl=seconds + SPARE_SECONDS,
            )
            for k, request in requests.items()
        ]
        # The reply to a message that Flower could not deliver bears the id of another node: what it answers
        # is known by the message only.
        sent = self.grid.push_messages(messages)
        waiting = {message: k for message, k in zip(sent, requests, strict=True) if message}
        replies: dict[int, Reply] = {}
        until = time.monotonic() + seconds
        while waiting and time.monotonic() < until:
            for message, answer in self.pull(list(waiting)).items():
                k = waiting.pop(message)
                if answer is not None and answer.has_error():
                    log.warning("no reply of site %d: %s", k, answer.error.reason)
                else:
                    replies[k] = read_reply(answer)
            time.sleep(SECONDS_BETWEEN_POLLS)
        return replies

    def pull(self, messages: list[str]) -> dict[str, Message | None]:
        """The replies that are there, by what they answer; None is one that Flower cannot even unpack."""
        try:
            return {
                answer.metadata.reply_to_message_id: answer for answer in self.grid.pull_messages(messages)
            }
        except httpx.HTTPError:
            raise  # the SuperLink is gone
        except Exception:
            if len(messages) == 1:
                return {messages[0]: None}
            return {k: v for message in messages for k, v in self.pull([message]).items()}


def read_reply(answer: Message | None) -> Reply:
    try:
        if answer is None:
            raise ValueError("Flower cannot unpack it")
        return decode_reply(answer.content)
    except Exception as error:
        log.warning("a reply that cannot be read: %s: %s", type(error).__name__, error)
        return Reply(problem=1 + PROBLEMS.index(UNREADABLE))

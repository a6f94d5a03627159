"""The coordinator's end: requests to sites through Flower's grid.

Flower delivers a message once. If the line is cut at that moment, or the site is killed while it works, the
message is lost, and nobody says so. But a site takes one message after another: one that answers a later ping
has nothing to do any more, so what it was asked before is sent again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

import httpx
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedactive.sites.flower.pace import Pace
from fedactive.sites.flower.wire import MESSAGE_TYPES, PING, decode_reply, encode_request
from fedactive.sites.messages import PROBLEMS, UNREADABLE, Reply, Request

log = logging.getLogger(__name__)

LONGEST_PAUSE = 0.5  # seconds between looks for replies
SPARE_SECONDS = 600.0  # by which a message outlives our patience
FIRST_PING = 30.0  # seconds of silence; the next ping is after twice as long


class FlowerTransport:
    """Sites are numbered by the order of their Flower nodes in `nodes`."""

    def __init__(self, grid: Grid, nodes: Sequence[int]) -> None:
        self.grid = grid
        self.nodes = nodes

    def online(self) -> set[int]:
        there = set(self.grid.get_node_ids())
        return {k for k, node in enumerate(self.nodes) if node in there}

    def ask(self, requests: Mapping[int, Request], seconds: float) -> dict[int, Reply]:
        begun, silence = time.monotonic(), FIRST_PING
        sent, pings = self.push(requests, seconds), dict[str, int]()  # sites, by message
        waiting = set(sent.values())
        replies: dict[int, Reply] = {}
        pace = Pace(LONGEST_PAUSE)
        pace.quicken()
        while waiting and time.monotonic() - begun < seconds:
            pace.rest()
            answers = self.pull([message for message, k in (sent | pings).items() if k in waiting])
            if answers:
                pace.quicken()
            idle = set[int]()
            for message, answer in answers.items():
                error = answer.error.reason if answer is not None and answer.has_error() else None
                if message in pings:
                    idle |= {pings.pop(message)} if error is None else set()
                    continue
                k = sent.pop(message)
                waiting.discard(k)
                if error is not None:
                    log.warning("no reply of site %d: %s", k, error)
                else:
                    replies[k] = read_reply(answer)
            for k in idle & waiting:
                log.warning("site %d has lost a message, or its reply was lost: it is sent again", k)
                sent |= self.push({k: requests[k]}, seconds)
            if time.monotonic() - begun >= silence:
                pings |= self.push_contents({k: (RecordDict(), PING) for k in waiting}, seconds)
                silence *= 2
        return replies

    def push(self, requests: Mapping[int, Request], seconds: float) -> dict[str, int]:
        """Send these requests, and return the sites by the ids of the messages."""
        return self.push_contents(
            {k: (encode_request(request), MESSAGE_TYPES[request.kind]) for k, request in requests.items()},
            seconds,
        )

    def push_contents(self, contents: Mapping[int, tuple[RecordDict, str]], seconds: float) -> dict[str, int]:
        messages = [
            Message(content, self.nodes[k], kind, ttl=seconds + SPARE_SECONDS)
            for k, (content, kind) in contents.items()
        ]
        # The reply to a message that Flower could not deliver bears the id of another node: what it answers
        # is known by the message only.
        sent = self.grid.push_messages(messages)
        return {message: k for message, k in zip(sent, contents, strict=True) if message}

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

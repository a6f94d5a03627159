"""The site's end: takes Flower's messages from the SuperNode beside it and has the trainer answer them.

Flower would start a process for each message and run in it code that the coordinator sent. This takes the
place of that process: the trainer stays warm, and no code of anybody else ever runs at a site.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing

import httpx
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedactive.sites.flower.pace import ask_again_soon
from fedactive.sites.flower.wire import PING, decode_request, encode_reply
from fedactive.sites.messages import Reply, Request, failure

log = logging.getLogger(__name__)

SECONDS_BETWEEN_POLLS = 3.0  # where nobody says that there is a message
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


class Runner:
    def __init__(self, address: str, secret: bytes, answer: Callable[[Request], Reply]) -> None:
        """`address` is the SuperNode's, on loopback; `secret` is what it knows us by."""
        self.address = address
        self.secret = secret
        self.answer = answer
        self.one_at_a_time = threading.Lock()
        self.expected = threading.Event()  # a message, or the end
        self.stopped = False

    def run(self) -> None:
        """Work until `stop`. If the SuperNode is away or dies, wait for it."""
        ask_again_soon()
        known = SuperExecAuthHttpInterceptor(master_secret=self.secret, protected_methods=[ACQUIRE])
        with closing(self.client("SuperExec", known)) as client:
            while not self.stopped:
                self.expected.clear()
                try:
                    task = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                    if task.token:
                        # In a thread of its own: a message of a run that died never comes in whole, and
                        # must not keep others waiting.
                        threading.Thread(target=self.work, args=(task.token,), daemon=True).start()
                except httpx.HTTPError as error:
                    log.debug("the SuperNode is not there: %s", error)
                self.expected.wait(SECONDS_BETWEEN_POLLS)

    def expect(self) -> None:
        """Look at once: the SuperNode has a message."""
        self.expected.set()

    def stop(self) -> None:
        self.stopped = True
        self.expected.set()

    def work(self, token: str) -> None:
        """Answer one message, and tell the SuperNode meanwhile that it is being worked on."""
        with closing(self.client("flwr-clientapp", RuntimeTokenHttpInterceptor(token))) as client:
            beat = HeartbeatSender(lambda: heartbeat(client))
            beat.start()
            try:
                message, context, _, _ = pull_task_input(client)
                reply = self.reply_to(message)
                push_message(client, Message(encode_reply(reply), reply_to=message), context)
                push_task_output(client, context, SubStatus.COMPLETED, "")
            except Exception:
                log.exception("a message was lost")
            finally:
                beat.stop()

    def reply_to(self, message: Message) -> Reply:
        if message.metadata.message_type == PING:
            return Reply()
        with self.one_at_a_time:
            try:
                request = decode_request(message.content)
            except Exception as error:
                log.warning("a message that cannot be read: %s: %s", type(error).__name__, error)
                return failure()
            return self.answer(request)

    def client(self, name: str, interceptor: ProtobufClientInterceptor) -> RuntimeHttpClient:
        version = RuntimeVersionHttpInterceptor(component_name=name)
        return RuntimeHttpClient.from_server_address(self.address, True, None, [version, interceptor])


def heartbeat(client: RuntimeHttpClient) -> bool:
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except httpx.HTTPError:
        return False
    return True

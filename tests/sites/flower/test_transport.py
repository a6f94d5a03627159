"""Messages that are lost on their way are sent again: over Flower's own store of messages."""

from __future__ import annotations

import threading

import pytest
from flwr.app import Message, RecordDict
from flwr.server.superlink.linkstate import LinkStateFactory

from fedactive.sites.flower import transport as module
from fedactive.sites.flower.transport import FlowerTransport
from fedactive.sites.flower.wire import MESSAGE_TYPES, PING, decode_request, encode_reply
from fedactive.sites.messages import Reply, Request

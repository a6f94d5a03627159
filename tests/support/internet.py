"""An internet on this machine: hosts in network namespaces of their own, and lines between them that can be bad.

Each host has one line to a router, which is this process. It reads IP packets from one line and puts them on
another: late, in another order, or not at all. (The kernel's netem does the same, where a kernel has it.)

Namespaces have no names here, so that nothing needs to be cleaned up: the kernel removes a namespace and the
line in it with the last process that is inside, and processes end with the one that started them.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import math
import os
import random
import selectors
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.lacking import lacking

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
LONGEST_PACKET = 65_536
LONGEST_QUEUE = 0.5  # seconds of a narrow line; what would wait longer is lost
TCP = 6

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Weather:
    """What a line does to packets in one direction."""

    loss: float = 0.0  # share of the packets; 1 is a cut
    delay: float = 0.0  # seconds
    jitter: float = 0.0  # up to so many seconds more, so that packets overtake each other
    rate: float = math.inf  # bytes in a second


FAIR, CUT = Weather(), Weather(loss=1.0)


class Host:
    """A network namespace with a line to the router."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.sends = self.hears = FAIR
        self.busy_until = 0.0  # the line towards this host
        # In a thread of its own, which leaves our namespace for good.
        making = threading.Thread(target=self.make)
        making.start()
        making.join()

    def make(self) -> None:
        call(libc.unshare, CLONE_NEWNET)
        self.namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.line = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.line, TUNSETIFF, struct.pack("16sH22x", b"line", IFF_TUN | IFF_NO_PI))
        for command in ("link set lo up", "link set line up", f"address add {self.address}/24 dev line"):
            subprocess.run(["ip", *command.split()], check=True)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Have this thread in the namespace, with the threads and processes that it starts."""
        with open("/proc/thread-self/ns/net") as home:
            call(libc.setns, self.namespace, CLONE_NEWNET)
            try:
                yield
            finally:
                call(libc.setns, home.fileno(), CLONE_NEWNET)

    def suffers(self, weather: Weather) -> None:
        self.sends = self.hears = weather

    def move(self, address: str) -> None:
        """Have another address, and no longer the one so far."""
        with self.inside():
            subprocess.run(["ip", "address", "del", f"{self.address}/24", "dev", "line"], check=True)
            subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "line"], check=True)
        self.address = address


@dataclass
class Internet:
    """Hosts by name, and who they are for each other: /etc/hosts in the processes that are started here."""

    names: Path  # that file
    hosts: dict[str, Host] = field(default_factory=dict)
    queue: list[tuple[float, int, Host, bytes]] = field(default_factory=list)  # packets by when they are due
    connections: set[bytes] = field(default_factory=set)
    forgotten: set[bytes] = field(default_factory=set)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Internet:
        self.selector = selectors.DefaultSelector()
        self.chance, self.numbers = random.Random(1), itertools.count()
        self.router = threading.Thread(target=self.carry, daemon=True)
        self.router.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.router.join()
        for host in self.hosts.values():
            os.close(host.line)
            os.close(host.namespace)

    def add(self, name: str) -> Host:
        host = self.hosts[name] = Host(f"10.77.0.{len(self.hosts) + 1}")
        self.selector.register(host.line, selectors.EVENT_READ, host)
        self.publish(name)
        return host

    def publish(self, *_: str, **others: str) -> None:
        """Write down which address each name has, and `others` besides."""
        lines = [f"{host.address} {name}.test" for name, host in self.hosts.items()]
        lines += [f"{address} {name}.test" for name, address in others.items()]
        self.names.write_text(
            "\n".join(["127.0.0.1 localhost", *lines, ""])
        )  # the same inode, which is mounted

    def forget_connections(self) -> None:
        """Do what a firewall does that is started again: packets of earlier connections lead nowhere."""
        self.forgotten |= self.connections

    def carry(self) -> None:
        """Carry packets until `stopped`."""
        while not self.stopped.is_set():
            soon = self.queue[0][0] - time.monotonic() if self.queue else 0.1
            for key, _ in self.selector.select(min(max(soon, 0.0), 0.1)):
                self.take(os.read(key.fd, LONGEST_PACKET), key.data)
            while self.queue and self.queue[0][0] <= time.monotonic():
                _, _, receiver, packet = heapq.heappop(self.queue)
                os.write(receiver.line, packet)

    def take(self, packet: bytes, sender: Host) -> None:
        """Decide when this packet arrives, if it does."""
        address = socket.inet_ntoa(packet[16:20])
        receiver = next((host for host in self.hosts.values() if host.address == address), None)
        if packet[0] >> 4 != 4 or receiver is None or self.is_forgotten(packet):
            return
        due = time.monotonic()
        for weather in (sender.sends, receiver.hears):
            if self.chance.random() < weather.loss:
                return
            due += weather.delay + weather.jitter * self.chance.random()
        rate = min(sender.sends.rate, receiver.hears.rate)
        begins = max(due, receiver.busy_until)
        if begins - due > LONGEST_QUEUE:
            return
        receiver.busy_until = begins + len(packet) / rate
        heapq.heappush(self.queue, (receiver.busy_until, next(self.numbers), receiver, packet))

    def is_forgotten(self, packet: bytes) -> bool:
        header = 4 * (packet[0] & 15)
        if packet[9] != TCP:
            return False
        ends = (packet[12:16] + packet[header : header + 2], packet[16:20] + packet[header + 2 : header + 4])
        connection = b"".join(sorted(ends))
        self.connections.add(connection)
        return connection in self.forgotten

    def command(self, *words: str) -> list[str]:
        """The command so that it knows our names, and ends when we do."""
        mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "sh",
            "-c",
            mount,
            str(self.names),
            *words,
        ]


def call(function: ctypes._CFuncPtr, *arguments: int) -> None:
    if function(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def require_internet() -> None:
    """Leave the test out where namespaces cannot be made."""
    tools = ("ip", "unshare", "setpriv", "mount")
    if sys.platform != "linux" or os.geteuid() or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        lacking("network namespaces can be made by root only, and need /dev/net/tun")
    for tool in tools:
        if not shutil.which(tool):
            lacking(f"{tool} is not installed")

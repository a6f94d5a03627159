"""A site's Flower: the SuperNode as a child process, kept alive, and the runner that answers for it."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fedactive.sites.flower import processes
from fedactive.sites.flower.runner import Runner
from fedactive.sites.keys import write_secret
from fedactive.sites.messages import Reply, Request

log = logging.getLogger(__name__)

# The coordinator refuses a SuperNode for a minute after another with the same key was killed.
SECONDS_BEFORE_RESTART = 5.0


class SuperNode:
    """One that dies or is refused is started again: the coordinator may come back, or admit us later."""

    def __init__(self, folder: Path, coordinator: str, answer: Callable[[Request], Reply]) -> None:
        self.folder = folder
        self.coordinator = coordinator
        self.port = processes.free_port()
        secret = secrets.token_hex(32).encode()  # a new one for each start, which nobody else here knows
        self.secret_file = folder / "runner.secret"
        self.secret_file.unlink(missing_ok=True)
        write_secret(self.secret_file, secret)
        self.runner = Runner(f"127.0.0.1:{self.port}", secret, answer)
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=work) for work in (self.runner.run, self.keep)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self.runner.stop()
        for thread in self.threads:
            thread.join()
        self.secret_file.unlink(missing_ok=True)

    def keep(self) -> None:
        while not self.stopped.is_set():
            begun = time.monotonic()
            process = processes.start(
                "supernode",
                [
                    *("--superlink", self.coordinator, "--root-certificates", self.folder / "ca.pem"),
                    *("--auth-supernode-private-key", self.folder / "site.key"),
                    *("--isolation", "process", "--superexec-auth-secret-file", self.secret_file),
                    *("--host", "127.0.0.1", "--port", self.port),
                ],
                home=self.folder / "flower",
                log=self.folder / "flower.log",
            )
            while process.poll() is None and not self.stopped.wait(0.2):
                pass
            processes.end(process)
            if not self.stopped.is_set():
                log.warning(
                    "the SuperNode ended after %.0f s (see %s) and is started again",
                    time.monotonic() - begun,
                    self.folder / "flower.log",
                )
                self.stopped.wait(SECONDS_BEFORE_RESTART)

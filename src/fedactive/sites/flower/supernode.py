"""A site's Flower: the SuperNode as a child process, kept alive, and the runner that answers for it."""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

from fedactive.sites.flower import processes
from fedactive.sites.flower.runner import Runner
from fedactive.sites.keys import write_secret
from fedactive.sites.messages import Reply, Request

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0  # seconds before a SuperNode that ended is started again

SECONDS_BETWEEN_LOOKS = 0.05  # at what it says: a message waits until it is said that it is there

# What a SuperNode says, and what that means to the people at the site.
RECEIVED = "Received successfully"  # a message
CONNECTED = "connected to the coordinator at {address}"
NOT_ADMITTED = (
    "the coordinator at {address} has not admitted this site (yet): send it {folder}/site.pub; "
    "a site that was dismissed needs a new key: remove site.pub and give `fedactive site init` again"
)
MEANINGS = {
    "SuperNode ID": CONNECTED,
    "Connection successful": CONNECTED,
    "is not in `RUNNING` status": CONNECTED,  # all that is said after a coordinator was away
    RECEIVED: CONNECTED,
    "Connection attempt failed": "the coordinator cannot be reached at {address}; trying again",
    "CERTIFICATE_VERIFY_FAILED": "the certificate at {address} is not the one of the invitation",
    "certificate has expired": "the certificate at {address} has ended; the coordinator has to renew it",
    "SSL: ": "what answers at {address} does not speak like a coordinator",
    "412 Precondition Failed": NOT_ADMITTED,  # said by the gate
    "401 Unauthorized": "the clocks of this site and of the coordinator at {address} do not agree",
    "code: 2004": "the coordinator counts an earlier connection of this site for up to a minute",
}
ENDED = "the SuperNode ended (see {folder}/flower.log) and is started again"
WORDS = re.compile("|".join(map(re.escape, MEANINGS)))


def find_meaning(said: str) -> str | None:
    """What the last known words in this text mean."""
    found = WORDS.findall(said)
    return MEANINGS[found[-1]] if found else None


class SuperNode:
    """One that dies or is refused is started again: the coordinator may come back, or admit us later."""

    def __init__(self, folder: Path, coordinator: str, answer: Callable[[Request], Reply]) -> None:
        self.folder = folder
        self.coordinator = coordinator
        self.port = processes.free_port()
        secret = secrets.token_hex(32).encode()  # a new one for each start, which nobody else here knows
        self.secret_file = folder / "runner.secret"
        write_secret(self.secret_file, secret)
        self.runner = Runner(f"127.0.0.1:{self.port}", secret, answer)
        self.last_told = ""  # a meaning
        self.last_said = ""  # the sentence that it became
        self.came_back = threading.Event()  # set when the connection is there (again)
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=work) for work in (self.runner.run, self.keep_running)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self.runner.stop()
        for thread in self.threads:
            thread.join()
        self.secret_file.unlink(missing_ok=True)

    @property
    def connected(self) -> bool:
        return self.last_told == CONNECTED

    def keep_running(self) -> None:
        pause = FIRST_PAUSE
        while not self.stopped.is_set():
            coordinator = self.coordinator
            meanings = self.run_once()
            if self.stopped.is_set():
                break
            if self.coordinator != coordinator:
                continue  # it has moved, and we go there at once
            if not meanings or meanings[-1] == CONNECTED:
                self.tell(ENDED)
            if CONNECTED in meanings:
                pause = FIRST_PAUSE
            self.stopped.wait(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def run_once(self) -> list[str]:
        """Run a SuperNode to its end; return the meanings of what it said, which are logged meanwhile."""
        coordinator = self.coordinator  # it may move meanwhile
        process = processes.start(
            "supernode",
            [
                *("--superlink", coordinator, "--root-certificates", self.folder / "ca.pem"),
                *("--auth-supernode-private-key", self.folder / "site.key"),
                *("--isolation", "process", "--superexec-auth-secret-file", self.secret_file),
                *("--host", "127.0.0.1", "--port", self.port),
            ],
            home=self.folder / "flower",
            log=self.folder / "flower.log",
        )
        meanings: list[str] = []
        with (self.folder / "flower.log").open(errors="replace") as said:
            said.seek(0, os.SEEK_END)  # past earlier ones: this one has yet to load Flower
            going_on = True
            while going_on:
                going_on = process.poll() is None and not self.stopped.wait(SECONDS_BETWEEN_LOOKS)
                going_on = going_on and self.coordinator == coordinator
                new = said.read()
                if RECEIVED in new:
                    self.runner.expect()
                meaning = find_meaning(new)
                if meaning and [meaning] != meanings[-1:]:
                    meanings.append(meaning)
                    self.tell(meaning)
        processes.end(process)
        return meanings

    def tell(self, meaning: str) -> None:
        """Log a meaning, unless it was the last one that was logged."""
        if meaning != self.last_told:
            sentence = meaning.format(address=self.coordinator, folder=self.folder)
            log.log(logging.INFO if meaning == CONNECTED else logging.WARNING, sentence)
            self.last_said = sentence
            if meaning == CONNECTED:
                self.came_back.set()
        self.last_told = meaning

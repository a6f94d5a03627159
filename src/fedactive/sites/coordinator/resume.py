"""Go on with runs that something has ended: the machine, the SuperLink, the process of the run itself."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing

from fedactive.errors import UserError
from fedactive.sites.coordinator import launch
from fedactive.sites.coordinator.folder import Coordinator

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0  # before a run that ended is started again; each time it doubles
SECONDS_OF_GOOD_RUNNING = 600.0  # after which it counts as sound


class Resumer:
    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.started: dict[str, tuple[float, float]] = {}  # by run: when last, and the pause before the next

    def keep_runs(self, stopped: threading.Event) -> None:
        """Look again and again, until `stopped`."""
        while not stopped.wait(SECONDS_BETWEEN_LOOKS):
            self.look()

    def look(self) -> None:
        """Start the wanted runs that are not going on."""
        if not self.coordinator.is_serving():
            return
        for name in self.coordinator.wanted():
            now = time.monotonic()
            last, pause = self.started.get(name, (-LONGEST_PAUSE, FIRST_PAUSE))
            if now - last < pause:
                continue
            try:
                if self.resume(name):
                    pause = FIRST_PAUSE if now - last > SECONDS_OF_GOOD_RUNNING else 2 * pause
                    self.started[name] = now, min(pause, LONGEST_PAUSE)
                    log.info("going on with run %s", name)
            except UserError as error:
                self.started[name] = now, min(2 * pause, LONGEST_PAUSE)
                log.warning("cannot go on with run %s: %s", name, error)

    def resume(self, name: str) -> bool:
        """Start this run; False if it is going on, or the process that had it has not let go yet."""
        with self.coordinator.hold(), closing(self.coordinator.control()) as control:
            if name not in self.coordinator.wanted():  # stopped meanwhile
                return False
            plan = self.coordinator.plan(name)
            if launch.find(self.coordinator, control, plan) is not None:
                return False
            if launch.is_held(self.coordinator.run_folder(plan)):
                return False
            launch.start(self.coordinator, control, plan)
            return True

"""A rehearsal whose coordinator and sites are hosts of their own, with an internet between them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from fedactive.experiment import Experiment
from fedactive.sites.rehearsal import Rehearsal
from support.internet import Host, Internet, Weather

HUB = "hub"


class FarRehearsal(Rehearsal):
    def __init__(self, folder: Path, experiment: Experiment) -> None:
        super().__init__(folder, experiment, host=f"{HUB}.test")
        self.internet = Internet(folder / "hosts")
        self.stack = ExitStack()

    def __enter__(self) -> FarRehearsal:
        """Be at the coordinator's host, as the person who gives its commands is."""
        self.stack.enter_context(self.internet)
        for name in (HUB, *(site.name for site in self.sites)):
            self.internet.add(name)
        for person in self.people:
            person.run = partial(self.work_at, self.host(person.site.name), person.run)
        self.hub = self.host(HUB)
        self.stack.enter_context(self.hub.inside())
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.everybody_suffers(Weather())
        super().__exit__(*error)
        self.stack.close()

    def host(self, name: str) -> Host:
        return self.internet.hosts[name]

    def everybody_suffers(self, weather: Weather) -> None:
        for host in self.internet.hosts.values():
            host.suffers(weather)

    @staticmethod
    def work_at(host: Host, work) -> None:
        with host.inside():
            work()

    def command(self, words: list[str]) -> list[str]:
        return self.internet.command(*words)

    def start(self, name: str, *arguments: str) -> None:
        host = self.hub if name == "coordinator" else self.host(name)
        with host.inside():
            super().start(name, *arguments)

    def start_coordinator(self) -> None:
        folder = str(self.coordinator.folder)
        self.start("coordinator", "coordinator", "serve", folder, "--host", "0.0.0.0")

"""A rehearsal whose every byte from the sites to the coordinator is kept."""

from __future__ import annotations

from contextlib import chdir

from fedactive.sites.flower import processes
from fedactive.sites.invitation import Invitation
from fedactive.sites.rehearsal import Rehearsal, end
from support.recorder import Recorder, record_at
from support.traps import set_traps


class RecordedRehearsal(Rehearsal):
    """The sites' way to the coordinator leads past a recorder."""

    recorder: Recorder | None = None

    def start(self, name, *arguments):
        """In a folder with files that nobody must import."""
        traps = self.folder / "traps"
        self.imported = traps / "imported" if traps.exists() else set_traps(traps)
        with chdir(traps):
            super().start(name, *arguments)

    def start_site(self, site):
        coordinator = self.coordinator
        if self.recorder is None:
            self.port = processes.free_port()
            self.recorder, self.door = record_at(self.port, coordinator.address, coordinator.folder)
        address = f"localhost:{self.port}"
        Invitation(address, (coordinator.folder / "ca.pem").read_text()).write(
            site.folder / "invitation.toml"
        )
        super().start_site(site)

    def kill(self, name):
        self.running[name].kill()
        self.running[name].wait()

    def __exit__(self, *_):
        end([self.running.pop(site.name) for site in self.sites if site.name in self.running])
        self.door.server.should_exit = True  # or the coordinator would wait for its connections to end
        super().__exit__()

"""The coordinator's folder.

invitation.toml      what a site needs to join: the address and ca.pem
ca.pem               the certificate of its certificate authority
server.pem, .key     the certificate and key of its server
sites.json           the sites that were ever admitted
plans/, runs/        what was to be run, and the run folders; runs/NAME/sites.json: with which sites
serving.json         where the SuperLink listens, while it does
flower/, flower.log  what Flower keeps and says
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedactive.errors import ConfigurationError, UserError, unknown_name
from fedactive.files import write_atomically, write_json
from fedactive.record.run_folder import completed_rounds
from fedactive.sites.coordinator.plan import Plan, card_to_plain
from fedactive.sites.flower.control import Control
from fedactive.sites.invitation import Invitation, parse_address
from fedactive.sites.keys import make_authority_and_certificate, read_public_key
from fedactive.sites.names import checked_name

FOLDER_VARIABLE = "FEDACTIVE_COORDINATOR"  # tells the ServerApp, which Flower starts, whose it is


@dataclass(frozen=True)
class Site:
    name: str
    node: int  # Flower's id of it
    key: str  # its public key, PEM
    dismissed: bool = False  # and stays here: runs know it by its name


class Coordinator:
    def __init__(self, folder: Path) -> None:
        if not (folder / "invitation.toml").exists():
            raise UserError(f"{folder} is no coordinator's folder; `fedactive coordinator init` makes one")
        self.folder = folder.resolve()
        self.address = Invitation.read(folder / "invitation.toml").address

    @classmethod
    def init(cls, folder: Path, address: str) -> Coordinator:
        """A new coordinator, which sites reach at `address` (host:port)."""
        host, _ = parse_address(address)
        if (folder / "invitation.toml").exists():  # written last: without it nobody knows the certificates
            raise UserError(f"{folder} is a coordinator's already, and its sites trust these certificates")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)  # its key and all global models are nobody else's
            make_authority_and_certificate(folder, list(dict.fromkeys([host, "localhost", "127.0.0.1"])))
            Invitation(address, (folder / "ca.pem").read_text()).write(folder / "invitation.toml")
        except OSError as error:
            raise UserError(f"cannot make a coordinator in {folder}: {error.strerror}") from None
        return cls(folder)

    def superlink(self) -> dict[str, Any]:
        """Address and process id of the SuperLink."""
        serving = self.folder / "serving.json"
        if not serving.exists():
            raise UserError(f"{self.folder} is not serving; start `fedactive coordinator serve` first")
        found: dict[str, Any] = json.loads(serving.read_text())
        return found

    def control(self) -> Control:
        return Control(self.superlink()["address"], self.folder / "ca.pem")

    # --- sites

    def all_sites(self) -> list[Site]:
        """In the order in which they were admitted, those that were dismissed included."""
        file = self.folder / "sites.json"
        return [Site(**site) for site in json.loads(file.read_text())["sites"]] if file.exists() else []

    def sites(self) -> list[Site]:
        """Those that a new run begins with."""
        return [site for site in self.all_sites() if not site.dismissed]

    def keys(self) -> list[str]:
        """Of those who may come in."""
        return [site.key for site in self.sites()]

    def admit(self, public_key: Path, name: str | None) -> Site:
        """From now on the holder of this key may take part. Cut short, it can be done again."""
        key, comment = read_public_key(public_key)
        name = checked_name(name or comment)
        with self.hold(), closing(self.control()) as control:
            known = self.all_sites()
            for site in known:
                if site.key == key.decode() and not site.dismissed:
                    raise UserError(f"{public_key} is admitted already, as {site.name}")
            if name in [site.name for site in known]:
                raise ConfigurationError("name", name, "a name that no other site has or had (--name)")
            site = Site(name, control.admit(key, name), key.decode())
            self.write_sites([*known, site])
        return site

    def dismiss(self, name: str) -> None:
        """From now on the site of this name takes no part, and its key is never admitted again."""
        with self.hold(), closing(self.control()) as control:
            known = self.all_sites()
            for site in known:
                if site.name == name:
                    control.dismiss(site.node)
                    self.write_sites([replace(s, dismissed=s.dismissed or s == site) for s in known])
                    return
        raise unknown_name("site", name, [site.name for site in known])

    def write_sites(self, sites: Sequence[Site]) -> None:
        write_json(self.folder / "sites.json", {"sites": [asdict(site) for site in sites]})

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One change of the sites, or start of a run, at a time: the next one waits."""
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    # --- plans

    def keep_plan(self, text: str) -> Plan:
        """Check a plan and keep it; a plan of the same run replaces it, if it is about the same images."""
        plan = self.parse_plan(text)
        self.check_images(plan)
        (self.folder / "plans").mkdir(exist_ok=True)
        write_atomically(self.plan_file(plan.experiment.name), text.encode())
        return plan

    def check_images(self, plan: Plan) -> None:
        """The name of a run does not tell the table [images], so one that has begun holds on to it."""
        name = plan.experiment.name
        if not read_names(self.run_folder(plan)) or not self.plan_file(name).exists():
            return
        begun = card_to_plain(self.plan(name).images)
        for key, value in card_to_plain(plan.images).items():
            if value != begun[key]:
                allowed = f"{begun[key]!r}, as this run began; a dataset of another name makes another run"
                raise ConfigurationError(f"images.{key}", value, allowed)

    def plan(self, name: str) -> Plan:
        """The plan of the run with this name, which has begun."""
        clients = len(read_names(self.folder / "runs" / name))
        return self.read_plan(self.plan_file(name).read_text(), clients)

    def plan_file(self, name: str) -> Path:
        return self.folder / "plans" / f"{name}.toml"

    def run_folder(self, plan: Plan) -> Path:
        return self.folder / "runs" / plan.experiment.name

    def log_file(self, plan: Plan) -> Path:
        return self.run_folder(plan) / "field.log"

    def parse_plan(self, text: str) -> Plan:
        """The plan for as many sites as a run of it began with that has not ended; else for those of now."""
        if not self.sites():
            raise UserError("no site is admitted yet; `fedactive coordinator admit` does that")
        plans = [self.read_plan(text, n) for n in range(len(self.all_sites()), 0, -1)]
        return next(filter(self.has_begun, plans), self.read_plan(text, len(self.sites())))

    def read_plan(self, text: str, clients: int) -> Plan:
        return Plan.from_toml(text, clients=clients, runs_dir=self.folder / "runs")

    def has_begun(self, plan: Plan) -> bool:
        """And has not ended."""
        folder = self.run_folder(plan)
        return bool(read_names(folder)) and completed_rounds(folder) < plan.experiment.rounds

    def begin(self, plan: Plan) -> None:
        """From now on the run has the sites that it has."""
        folder = self.run_folder(plan)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "sites.json", {"sites": [site.name for site in self.sites_of(plan)]})

    def sites_of(self, plan: Plan) -> list[Site]:
        """Those that the run began with, as they are now; of a new one, those that it will begin with."""
        begun = read_names(self.run_folder(plan))
        known = {site.name: site for site in self.all_sites()}
        return [known[name] for name in begun] if begun else self.sites()


def read_names(run_folder: Path) -> list[str]:
    """The sites of a run, by their numbers in it; none if it has not begun."""
    file = run_folder / "sites.json"
    return list(json.loads(file.read_text())["sites"]) if file.exists() else []

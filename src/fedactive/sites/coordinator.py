"""The coordinator's folder.

invitation.toml      what a site needs to join: the address and ca.pem
ca.pem               the certificate of its certificate authority
server.pem, .key     the certificate and key of its server
sites.json           the admitted sites, in the order of their numbers
plans/, runs/        what was to be run, and the run folders
serving.json         where the SuperLink listens, while it does
flower/, flower.log  what Flower keeps and says
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedactive.errors import ConfigurationError, UserError
from fedactive.runs import completed_rounds, write_atomically, write_json
from fedactive.sites.flower.control import Control
from fedactive.sites.invitation import Invitation, parse_address
from fedactive.sites.keys import make_authority_and_certificate, read_public_key
from fedactive.sites.plan import Plan

FOLDER_VARIABLE = "FEDACTIVE_COORDINATOR"  # tells the ServerApp, which Flower starts, whose it is


@dataclass(frozen=True)
class Site:
    name: str
    node: int  # Flower's id of it


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
        if (folder / "ca.pem").exists():
            raise UserError(f"{folder} is a coordinator's already, and its sites trust these certificates")
        folder.mkdir(parents=True, exist_ok=True)
        make_authority_and_certificate(folder, list(dict.fromkeys([host, "localhost", "127.0.0.1"])))
        Invitation(address, (folder / "ca.pem").read_text()).write(folder / "invitation.toml")
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

    def sites(self) -> list[Site]:
        file = self.folder / "sites.json"
        return [Site(**site) for site in json.loads(file.read_text())["sites"]] if file.exists() else []

    def admit(self, public_key: Path, name: str | None) -> Site:
        """From now on the holder of this key may take part. Its number is its place in the order."""
        key, comment = read_public_key(public_key)
        name = name or comment
        known = self.sites()
        if not name or name in [site.name for site in known]:
            raise ConfigurationError("name", name, "a name that no other site has")
        with closing(self.control()) as control:
            site = Site(name, control.admit(key, name))
        write_json(self.folder / "sites.json", {"sites": [asdict(s) for s in [*known, site]]})
        return site

    # --- plans

    def keep_plan(self, text: str) -> Plan:
        """Check a plan and keep it; a plan of the same run replaces it."""
        plan = self.parse_plan(text)
        (self.folder / "plans").mkdir(exist_ok=True)
        write_atomically(self.plan_file(plan.experiment.name), text.encode())
        return plan

    def plan(self, name: str) -> Plan:
        """The plan of the run with this name."""
        return next(p for p in self.plans(self.plan_file(name).read_text()) if p.experiment.name == name)

    def plan_file(self, name: str) -> Path:
        return self.folder / "plans" / f"{name}.toml"

    def run_folder(self, plan: Plan) -> Path:
        return self.folder / "runs" / plan.experiment.name

    def log_file(self, plan: Plan) -> Path:
        return self.run_folder(plan) / "field.log"

    def parse_plan(self, text: str) -> Plan:
        """The plan for all sites; for fewer, if a run of it that began with these has not ended."""
        plans = self.plans(text)
        return next(filter(self.has_begun, plans), plans[0])

    def plans(self, text: str) -> list[Plan]:
        """The plan for all sites, for all but the last admitted, and so on: whom runs may have begun with."""
        numbers = range(len(self.sites()), 0, -1)
        if not numbers:
            raise UserError("no site is admitted yet; `fedactive coordinator admit` does that")
        return [Plan.from_toml(text, clients=n, runs_dir=self.folder / "runs") for n in numbers]

    def has_begun(self, plan: Plan) -> bool:
        """And has not ended."""
        folder = self.run_folder(plan)
        return folder.exists() and completed_rounds(folder) < plan.experiment.rounds

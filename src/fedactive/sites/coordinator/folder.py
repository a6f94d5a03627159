"""The coordinator's folder.

invitation.toml      what a site needs to join: the address and ca.pem
ca.pem, .key         the certificate and key of its certificate authority
server.pem, .key     the certificate and key of its server
former.json          addresses under which it was reached before
sites.json           the sites that were ever admitted
backbones/           files of backbones, which somebody has put there for plans
plans/, runs/        what was to be run, and the run folders; runs/NAME/sites.json: with which sites;
                     runs/NAME/wanted is there until the run ends or is stopped
serving.json         where the SuperLink listens, while it does
flower/, flower.log  what Flower keeps and says
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

from fedactive.errors import ConfigurationError, UserError, unknown_name
from fedactive.files import RESTORE, quote, read_json, write_atomically, write_json
from fedactive.record.run_folder import completed_rounds
from fedactive.sites.card import card_to_plain
from fedactive.sites.certificates import (
    describe_end,
    has_authority,
    has_ended,
    make_authority,
    make_server_certificate,
)
from fedactive.sites.coordinator.member import Member
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.flower.control import Control
from fedactive.sites.invitation import Invitation, parse_address
from fedactive.sites.keys import read_public_key
from fedactive.sites.names import check_name

WANTED = "wanted"  # an empty file in a run's folder
FOLDER_VARIABLE = "FEDACTIVE_COORDINATOR"  # in the environment of the ServerApp, which Flower starts


class Coordinator:
    def __init__(self, folder: Path) -> None:
        if not (folder / "invitation.toml").exists():
            raise UserError(f"{folder} is not a coordinator's folder; `fedactive coordinator init` makes one")
        self.folder = folder.resolve()
        self.address = Invitation.read(folder / "invitation.toml").address

    @classmethod
    def init(cls, folder: Path, address: str) -> Coordinator:
        """Make a new coordinator, which sites reach at `address` (host:port)."""
        parse_address(address)
        if (folder / "invitation.toml").exists():  # written last: without it nobody knows the certificates
            raise UserError(f"{folder} is a coordinator's already, and its sites trust these certificates")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)  # its key and all global models are nobody else's
            make_authority(folder)
            make_server_certificate(folder, all_hosts([address]))
            Invitation(address, (folder / "ca.pem").read_text()).write(folder / "invitation.toml")
        except OSError as error:
            raise UserError(f"cannot make a coordinator in {folder}: {error.strerror}") from None
        return cls(folder)

    def renew(self) -> bool:
        """Make a new server's certificate; return whether sites have to join again, by a new invitation.

        They do if the authority is a new one: the key of the old one is not here, or its time ends.
        If this is interrupted, do it again.
        """
        with self.hold():
            if not has_authority(self.folder):
                make_authority(self.folder)
            make_server_certificate(self.folder, all_hosts([self.address, *self.former()]))
            invitation, authority = self.folder / "invitation.toml", (self.folder / "ca.pem").read_text()
            if Invitation.read(invitation).authority == authority:
                return False
            Invitation(self.address, authority).write(invitation)
            return True

    def move(self, address: str) -> None:
        """Be at another address from the next `serve` on. The one so far stays good until sites have moved.

        If this is interrupted, do it again.
        """
        parse_address(address)
        with self.hold():
            former = [known for known in (self.address, *self.former()) if known != address]
            write_json(self.folder / "former.json", {"addresses": former})
            make_server_certificate(self.folder, all_hosts([address, *former]))
            invitation = self.folder / "invitation.toml"
            Invitation(address, Invitation.read(invitation).authority).write(invitation)
            self.address = address

    def former(self) -> list[str]:
        """List the addresses where it was, the latest first: sites may still look for it there."""
        return list(map(str, read_json(self.folder / "former.json", "addresses", [])))

    def certificate_notice(self) -> str | None:
        """Say that the server's certificate has ended or ends soon, if so."""
        end = describe_end(self.folder / "server.pem")
        renew = f"`fedactive coordinator renew {quote(self.folder)}` makes a new one"
        return end and f"the coordinator's certificate {end}; {renew}"

    def require_certificate(self) -> None:
        """UserError if the server's certificate has ended, so that no site trusts it."""
        if has_ended(self.folder / "server.pem"):
            raise UserError(str(self.certificate_notice()))

    def is_serving(self) -> bool:
        return (self.folder / "serving.json").exists()

    def superlink(self) -> dict[str, Any]:
        """Return the address and process id of the SuperLink."""
        if not self.is_serving():
            raise UserError(f"{self.folder} is not serving; start `fedactive coordinator serve` first")
        serving, again = self.folder / "serving.json", "start `fedactive coordinator serve` again"
        return {key: read_json(serving, key, absent, again) for key, absent in (("address", ""), ("pid", 0))}

    def control(self) -> Control:
        self.require_certificate()
        return Control(self.superlink()["address"], self.folder / "ca.pem")

    # --- sites

    def all_sites(self) -> list[Member]:
        """List all sites in the order in which they were admitted, also those that were dismissed."""
        file = self.folder / "sites.json"
        return [Member.from_plain(site, file) for site in read_json(file, "sites", [], RESTORE)]

    def sites(self) -> list[Member]:
        """List the sites that a new run begins with."""
        return [site for site in self.all_sites() if not site.dismissed]

    def keys(self) -> list[str]:
        """List the public keys of the sites that may connect."""
        return [site.key for site in self.sites()]

    def admit(self, public_key: Path, name: str | None) -> Member:
        """Let the holder of this key take part from now on. If this is interrupted, do it again."""
        key, comment = read_public_key(public_key)
        name = check_name(name or comment)
        with self.hold(), closing(self.control()) as control:
            known = self.all_sites()
            for site in known:
                if site.key == key.decode() and not site.dismissed:
                    raise UserError(f"{public_key} is admitted already, as {site.name}")
            if name in [site.name for site in known]:
                raise ConfigurationError("name", name, "a name that no other site has or had (--name)")
            today = date.today().isoformat()
            site = Member(name, control.admit(key, name), key.decode(), admitted=today)
            self.write_sites([*known, site])
        return site

    def dismiss(self, name: str) -> None:
        """Let the site of this name take no part from now on; its key is never admitted again."""
        with self.hold(), closing(self.control()) as control:
            known = self.all_sites()
            for site in known:
                if site.name == name:
                    control.dismiss(site.node)
                    self.write_sites([replace(s, dismissed=s.dismissed or s == site) for s in known])
                    return
        raise unknown_name("site", name, [site.name for site in known])

    def write_sites(self, sites: Sequence[Member]) -> None:
        write_json(self.folder / "sites.json", {"sites": [asdict(site) for site in sites]})

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold a lock: one change of the sites, or start of a run, at a time."""
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    # --- plans

    def keep_plan(self, text: str) -> FieldPlan:
        """Check a plan and keep it. It replaces an earlier plan of the same run about the same images."""
        plan = self.parse_plan(text)
        self.check_images(plan)
        (self.folder / "plans").mkdir(exist_ok=True)
        write_atomically(self.plan_file(plan.experiment.name), text.encode())
        return plan

    def check_images(self, plan: FieldPlan) -> None:
        """Refuse other images than a run began with: the name of a run does not depend on them."""
        name = plan.experiment.name
        if not read_names(self.run_folder(plan)) or not self.plan_file(name).exists():
            return
        begun = card_to_plain(self.plan(name).images)
        for key, value in card_to_plain(plan.images).items():
            if value != begun[key]:
                allowed = f"{begun[key]!r}, as this run began; a dataset of another name makes another run"
                raise ConfigurationError(f"images.{key}", value, allowed)

    def plan(self, name: str) -> FieldPlan:
        """Read the plan of the run with this name, which has begun."""
        clients = len(read_names(self.folder / "runs" / name))
        try:
            text = self.plan_file(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{self.plan_file(name)} cannot be read; {RESTORE}") from None
        plan = self.read_plan(text, clients)
        if plan.experiment.name != name:  # its hash covers the backbone's content
            raise UserError(f"{plan.experiment.backbone} is not the file with which run {name} began")
        return plan

    def plan_file(self, name: str) -> Path:
        return self.folder / "plans" / f"{name}.toml"

    def run_folder(self, plan: FieldPlan) -> Path:
        return self.run_folder_of(plan.experiment.name)

    def run_folder_of(self, name: str) -> Path:
        return self.folder / "runs" / name

    def log_file(self, plan: FieldPlan) -> Path:
        return self.run_folder(plan) / "field.log"

    def parse_plan(self, text: str) -> FieldPlan:
        """Read a plan: for the sites of its run if that is going on, or else for the present sites."""
        if not self.sites():
            raise UserError("no site is admitted yet; `fedactive coordinator admit` does that")
        return self.find_begun(text) or self.read_plan(text, len(self.sites()))

    def find_begun(self, text: str) -> FieldPlan | None:
        """Find the run of this plan that has begun and not ended, among the plans that were kept.

        A plan does not say how many sites take part: that was decided when the run began.
        """
        wanted = self.read_plan(text, 1).experiment
        begun: list[FieldPlan] = []
        for file in (self.folder / "plans").glob("*.toml"):
            folder = self.folder / "runs" / file.stem
            names = read_names(folder)
            if not names or completed_rounds(folder) >= wanted.rounds:
                continue
            # Plans of an earlier version that this one does not understand, and damaged ones.
            with suppress(UserError, OSError, ValueError):
                if self.read_plan(file.read_text(), 1).experiment.hash == wanted.hash:
                    begun.append(self.read_plan(text, len(names)))
        return max(begun, key=lambda plan: plan.experiment.clients, default=None)

    def read_plan(self, text: str, clients: int) -> FieldPlan:
        return FieldPlan.from_toml(
            text, backbones=self.folder / "backbones", clients=clients, runs_dir=self.folder / "runs"
        )

    def begin(self, plan: FieldPlan) -> None:
        """Write down which sites the run has from now on."""
        folder = self.run_folder(plan)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "sites.json", {"sites": [site.name for site in self.sites_of(plan)]})

    # --- which runs are wanted

    def want(self, name: str, wanted: bool) -> None:
        """Write down whether `serve` goes on with this run by itself after whatever ends it."""
        mark = self.run_folder_of(name) / WANTED
        if wanted:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)

    def wanted(self) -> list[str]:
        """List the names of the runs that were started, and neither ended nor were stopped."""
        return sorted(mark.parent.name for mark in (self.folder / "runs").glob(f"*/{WANTED}"))

    def sites_of(self, plan: FieldPlan) -> list[Member]:
        """List the sites that the run began with, as they are now; for a new run, the present sites."""
        begun = read_names(self.run_folder(plan))
        known = {site.name: site for site in self.all_sites()}
        if strangers := [name for name in begun if name not in known]:
            raise UserError(f"{self.run_folder(plan)} has site {strangers[0]}, which was never admitted")
        return [known[name] for name in begun] if begun else self.sites()


def all_hosts(addresses: Sequence[str]) -> list[str]:
    """List the names that the server's certificate is for."""
    return list(dict.fromkeys([*(parse_address(one)[0] for one in addresses), "localhost", "127.0.0.1"]))


def read_names(run_folder: Path) -> list[str]:
    """List the names of a run's sites, in the order of their numbers; none if it has not begun."""
    return list(map(str, read_json(run_folder / "sites.json", "sites", [], RESTORE)))

"""Follow a coordinator that moves: it says where it is, and its certificate says that it is the same one.

Only the address changes. The authority is that of the invitation, so nobody else can lead a site away.
"""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path
from typing import Any

import httpx

from fedactive import __version__
from fedactive.errors import ConfigurationError
from fedactive.sites.flower.gate import ABOUT
from fedactive.sites.flower.supernode import SuperNode
from fedactive.sites.invitation import Invitation, parse_address

log = logging.getLogger(__name__)

SECONDS_BETWEEN_QUESTIONS = 300.0
SECONDS_TO_ANSWER = 10.0


def ask_about(address: str, authority: Path) -> dict[str, Any] | None:
    """Return what the coordinator at this address says of itself; None if there is nobody whom we trust."""
    try:
        trusted = ssl.create_default_context(cafile=str(authority))
        answer = httpx.get(f"https://{address}{ABOUT}", verify=trusted, timeout=SECONDS_TO_ANSWER)
        said: dict[str, Any] = answer.raise_for_status().json()
        parse_address(said["address"])
        return said
    except (httpx.HTTPError, ssl.SSLError, OSError, ValueError, LookupError, TypeError, ConfigurationError):
        return None  # an earlier version, or away; the SuperNode says so


class Whereabouts:
    def __init__(self, folder: Path, supernode: SuperNode) -> None:
        """`folder` is the site's."""
        self.folder = folder
        self.supernode = supernode
        self.version = ""

    def watch(self, stopped: threading.Event) -> None:
        """Ask now and then, until `stopped`, and when it comes back: that may be because it was moved."""
        while not stopped.is_set():
            self.look()
            self.supernode.came_back.wait(SECONDS_BETWEEN_QUESTIONS)
            self.supernode.came_back.clear()

    def look(self) -> None:
        """Ask where the coordinator is now; go there if it answers there, too."""
        authority, here = self.folder / "ca.pem", self.supernode.coordinator
        said = ask_about(here, authority)
        if said is None:
            return
        self.note_version(str(said.get("fedactive", ""))[:20])
        there = str(said["address"])
        if there == here or ask_about(there, authority) is None:
            return
        Invitation(there, authority.read_text()).write(self.folder / "invitation.toml")
        log.info("the coordinator has moved from %s to %s", here, there)
        self.supernode.coordinator = there

    def note_version(self, version: str) -> None:
        if version not in (self.version, __version__):
            log.warning(
                "the coordinator has fedactive %s, this site %s: install the same", version, __version__
            )
        self.version = version

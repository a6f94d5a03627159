"""Ask sites and read their replies: a reply that is not sound is dropped, with its reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from fedactive import __version__
from fedactive.federated.algorithm import State
from fedactive.federated.weights import Weights
from fedactive.sites.card import card_to_plain
from fedactive.sites.coordinator.checks import BadReplyError
from fedactive.sites.coordinator.journal import Journal
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.messages import FAILED, OTHER_VERSION, PROBLEMS, VERSION, Reply, Request, Transport

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between looks

T = TypeVar("T")


class Correspondence:
    """Sites are numbered from 0. Who replied, and what was wrong with a reply, goes to the journal."""

    def __init__(self, plan: FieldPlan, transport: Transport, journal: Journal) -> None:
        self.plan = plan
        self.transport = transport
        self.journal = journal

    def online(self) -> set[int]:
        there = self.transport.online()
        self.journal.set_online(there)
        return there

    def ask(
        self,
        kind: str,
        sites: Iterable[int],
        read: Callable[[int, Reply], T],
        *,
        al_round: int = 0,
        fl_round: int = 0,
        settings: Mapping[str, Any] | None = None,
        weights: Weights | None = None,
        state: State | None = None,
    ) -> dict[int, T]:
        """Ask these sites, and return what `read` makes of each reply that came in time and is sound.

        `read` is given the site's number, too, and raises BadReplyError for a reply that is not sound.
        """
        requests = {
            k: Request(
                kind,
                self.journal.run,
                al_round,
                fl_round,
                {**(settings or {}), "run": self.run_settings(k)},
                weights or {},
                state or {},
            )
            for k in sites
        }
        for k, request in requests.items():
            self.journal.update_site(k, asked=time.time())
            self.journal.add_to(k, "sent", size_of(request.weights, request.state))
        replies = self.transport.ask(requests, self.plan.rules.patience * 60) if requests else {}
        sound: dict[int, T] = {}
        for k, reply in sorted(replies.items()):
            self.journal.set_seen(k)
            self.journal.add_to(k, "received", size_of(reply.weights, reply.state))
            try:
                if reply.problem:
                    raise BadReplyError(explain(reply))
                sound[k] = read(k, reply)
            except BadReplyError as reason:
                where = f"AL round {al_round}, FL round {fl_round + 1}" if kind == "train" else kind
                self.journal.add_dropped(f"{self.journal.sites[k]} {reason} ({where})")
        return sound

    def run_settings(self, site: int) -> dict[str, Any]:
        """Return all that a site has to know of the run."""
        return {
            "experiment": self.plan.for_sites,
            "images": card_to_plain(self.plan.images),
            "client": site,
            "budget": list(self.journal.budgets or (0,)),
            "clip": self.plan.rules.clip,
            "noise": self.plan.rules.noise,
            "fedactive": __version__,
            # Where there is no backbone, settings are what earlier versions know.
            **({"standardisation": how} if (how := self.journal.standardisation) else {}),
        }


def explain(reply: Reply) -> str:
    """Say what a site's problem is; where it cannot read what we say, also which versions have met."""
    if reply.problem > len(PROBLEMS):
        return "has an unknown problem; its fedactive is a newer version than the coordinator's"
    problem = PROBLEMS[reply.problem - 1]
    if problem not in (FAILED, OTHER_VERSION):
        return problem
    version, install = reply.values.get("version"), f"{__version__}: install the same; it {problem}"
    if version is None:  # version 0.1 did not say it
        return f"has an earlier fedactive than the coordinator's {install}"
    if not isinstance(version, list) or [type(n) for n in version] != [int] * 3 or version == VERSION:
        return problem
    theirs = ".".join(map(str, version))
    return f"has fedactive {theirs:.20} and the coordinator {install}"


def size_of(weights: Weights, state: State) -> int:
    """Count the bytes of tensors; what is around them on the wire is small."""
    tensors = (tensor for group in (weights, *state.values()) for tensor in group.values())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def keep_looking() -> Iterable[None]:
    """Yield for ever, with pauses that grow: for loops that wait for people, or for sites that are away."""
    pause = FIRST_PAUSE
    while True:
        yield
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)

"""What sites say of themselves for the strategy, in a few numbers: the mean is fixed once it is known."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from fedactive.client import chooser
from fedactive.federated.weights import Weights
from fedactive.federation import average
from fedactive.sites.coordinator.checks import read_summary
from fedactive.sites.coordinator.correspondence import keep_looking

LASTING = "agreed"  # the name of a mean that stays what it is

if TYPE_CHECKING:
    from fedactive.sites.coordinator.federation import Sites


def agree(sites: Sites, al_round: int, weights: Weights | None, until: float) -> list[float] | None:
    """Return the mean over sites, each with the same weight; None if none is wanted, or no site has one.

    It is kept before any site is told, so that a run that goes on tells all sites the same. Of a mean that
    lasts as many sites as the quorum must have answered, or one by the time `until`. If there is another in
    each AL round, nobody waits: where a site is away there is none, as a mean of few says little of all.
    """
    strategy, journal = chooser(sites.plan.experiment, weights is not None), sites.journal
    lasting = weights is not None and not strategy.tells_each_round
    name = LASTING if lasting else f"{LASTING} {al_round}"
    if not strategy.numbers or journal.agreed(name) is not None:
        return journal.agreed(name)
    told: dict[int, list[float] | None] = {}
    for _ in keep_looking():
        told |= sites.sites.ask(
            "summary",
            sites.online() - told.keys(),
            lambda _, reply: read_summary(reply, strategy.numbers),
            al_round=al_round,
            weights=weights or {},
        )
        members = sites.members()
        heard = sorted(told.keys() & members)
        if not lasting:
            journal.agree(name, average(told[k] for k in heard) if set(heard) == members else None)
            break
        enough = len(heard) >= math.ceil(sites.plan.rules.quorum * len(members))
        if enough or (heard and time.monotonic() >= until):
            journal.agree(name, average(told[k] for k in heard))
            break
    return journal.agreed(name)

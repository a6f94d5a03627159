"""Run a plan between sites: the laboratory's loop and run folder, with sites where it has a simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from fedactive.data.budget import budget_per_client
from fedactive.errors import ConfigurationError, UserError
from fedactive.laboratory.progress import Silent
from fedactive.laboratory.run import Result
from fedactive.loop import federated_active_learning
from fedactive.record.run_folder import Run
from fedactive.sites.coordinator.federation import HIDDEN, Sites
from fedactive.sites.coordinator.journal import Journal
from fedactive.sites.coordinator.plan import Plan
from fedactive.sites.messages import Transport

STOPPED = "stopped: "  # begins the phase of a run that cannot go on before something is put right


class FieldRun(Run):
    """A run folder of the field."""

    def save_if_due(self) -> None:
        self.save()  # always: asking all sites again costs more, and sites remember one FL round only

    def share_first_round(self) -> None:
        """Not in the field: what people labelled for one run was not asked for by another."""


def run(
    plan: Plan,
    transport: Transport,
    sites: Sequence[str],
    dismissed: Callable[[], set[int]] = set,
) -> Result:
    """Run the plan, or the rest of it, with the sites of these names, which the transport numbers from 0.

    `dismissed` tells at any time which of them take no part any more.
    """
    e = plan.experiment
    if e.clients != len(sites):
        raise ConfigurationError("clients", e.clients, f"{len(sites)}, the number of admitted sites")
    with closing(FieldRun(e)) as folder:
        if not folder.done:
            journal = Journal(folder.folder, sites)
            try:
                run_rest(plan, Sites(plan, transport, journal, dismissed), folder, journal)
            except UserError as error:
                journal.phase(f"{STOPPED}{error}")
                raise
            journal.phase("finished")
    return Result(folder.folder)


def run_rest(plan: Plan, federation: Sites, folder: Run, journal: Journal) -> None:
    e = plan.experiment
    if journal.budget is None:
        images = federation.images()
        journal.decide(images, budget_per_client(sum(images), sum(map(bool, images)), e.budget))
    folder.begin([np.full(count, HIDDEN) for count in journal.images], "sites", "sites")
    federated_active_learning(e, federation, folder, Silent())

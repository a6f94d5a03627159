"""Run a plan between sites: the laboratory's loop and run folder, with sites where it has a simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from fedactive.data.budget import budgets_per_client
from fedactive.errors import ConfigurationError, UserError
from fedactive.loop import federated_active_learning
from fedactive.progress import Silent
from fedactive.record.run_folder import Run
from fedactive.record.run_tables import RunTables
from fedactive.sites.coordinator.federation import HIDDEN, Sites
from fedactive.sites.coordinator.journal import Journal
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.coordinator.status import FINISHED, Phase
from fedactive.sites.messages import Transport


class FieldRun(Run):
    """A run folder of the field."""

    def save_if_due(self) -> None:
        self.save()  # always: asking all sites again costs more, and sites remember one FL round only

    def share_first_round(self) -> None:
        """Not in the field: what people labelled for one run was not asked for by another."""


def run_plan(
    plan: FieldPlan,
    transport: Transport,
    sites: Sequence[str],
    dismissed: Callable[[], set[int]] = set,
) -> RunTables:
    """Run the plan, or the rest of it, with the sites of these names, which the transport numbers from 0.

    `dismissed` returns those that no longer take part; it is asked again and again.
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
                journal.enter(Phase("stopped", reason=str(error)))
                raise
            journal.enter(FINISHED)
    return RunTables(folder.folder)


def run_rest(plan: FieldPlan, federation: Sites, folder: Run, journal: Journal) -> None:
    e = plan.experiment
    if journal.budgets is None:
        images = federation.images()
        budgets = budgets_per_client(sum(images), sum(map(bool, images)), e.budget)
        journal.decide(images, budgets, federation.standardisation())
    folder.begin([np.full(count, HIDDEN) for count in journal.images], "sites", "sites")
    federated_active_learning(e, federation, folder, Silent())

"""The sites as a `Federation`: the loop's calls become requests, and the answers are checked and counted.

Which samples were chosen and what they are stays at the sites. Here a chosen sample is only counted: it
appears in the run folder as sample -1 with label -1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedactive.errors import RunError
from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, State, Update, make_algorithm
from fedactive.federated.weights import Weights
from fedactive.federation import Query, QueryPhase
from fedactive.models import ModelSpec
from fedactive.randomness import Randomness
from fedactive.sites.coordinator.checks import (
    LabelCounts,
    Tested,
    check_update,
    label_counts,
    pooled,
    tested,
    whole_number,
)
from fedactive.sites.coordinator.correspondence import Correspondence, looks
from fedactive.sites.coordinator.journal import Journal
from fedactive.sites.coordinator.plan import Plan
from fedactive.sites.messages import Reply, Transport

HIDDEN = -1  # stands for every sample and label that only the site knows


class Sites:
    """A `Federation` of real sites."""

    def __init__(
        self, plan: Plan, transport: Transport, journal: Journal, dismissed: Callable[[], set[int]]
    ) -> None:
        e = plan.experiment
        self.dismissed = dismissed
        self.plan = plan
        self.journal = journal
        self.sites = Correspondence(plan, transport, journal)
        self.clients = e.clients
        self.randomness = Randomness(e.seed)
        self.algorithm = make_algorithm(e.algorithm, e.algorithm_options)
        shape = (plan.images.channels, plan.images.size, plan.images.size)
        self.spec = ModelSpec(e.model, shape, len(plan.images.classes), e.model_options)
        self.parameters = [name for name, _ in self.spec.build().named_parameters()]
        self.counts = [0] * e.clients  # labels of each site, as far as counted
        self.fl_round = 0

    def members(self) -> set[int]:
        """The sites that were not dismissed: nobody waits for the others, and theirs does not count."""
        dismissed = self.dismissed()
        for k in dismissed:
            self.journal.note(k, dismissed=True)
        if len(dismissed) == self.clients:
            raise RunError("all sites of this run were dismissed")
        return set(range(self.clients)) - dismissed

    def online(self) -> set[int]:
        return self.sites.online() & self.members()

    def images(self) -> list[int]:
        """How many images each site holds; waits until every site has been there once."""
        found: dict[int, int] = {}
        for _ in looks():
            new = self.online() - found.keys()
            found |= self.sites.ask("hello", new, lambda reply: whole_number(reply, "images"))
            members = self.members()
            missing = [self.journal.sites[k] for k in sorted(members - found.keys())]
            if not missing:
                break
            self.journal.phase(f"waiting for {', '.join(missing)}")
        return [found[k] if k in members else 0 for k in range(self.clients)]

    # --- the active learning step

    def query(self, al_round: int, weights: Weights | None) -> QueryPhase:
        """Ask every site to choose, and wait for its people: until all have labelled, a quorum, a deadline.

        A site that comes back meanwhile is asked then; one that is away when the round ends adds no labels.
        """
        begun, rules = time.monotonic(), self.plan.rules
        self.journal.phase(f"AL round {al_round}: choosing")
        deadline = self.journal.deadline(al_round, rules.deadline * 3600)
        # A clock that is set meanwhile neither ends the round nor prolongs it.
        left = math.inf if deadline is None else min(deadline - time.time(), rules.deadline * 3600)
        asked: dict[int, LabelCounts] = {}
        local_only: dict[int, Evaluation] = {}

        def chosen(reply: Reply) -> tuple[LabelCounts, Tested | None]:
            measured = tested(reply, self.spec.classes) if "tested" in reply.values else None
            return label_counts(reply), measured

        def look(sites: set[int], close: bool) -> set[int]:
            """How far they are; returns those that are there and cannot tell."""
            there, settings = self.online() & sites, {"close": int(close), "deadline": deadline or 0.0}
            told = self.sites.ask("label_status", there, label_counts, al_round=al_round, settings=settings)
            asked.update(told)
            return there - told.keys()

        for _ in looks():
            # A site whose folder was restored from before this round does not know that it was asked.
            forgetful = look(set(asked), close=False)
            settings = {"deadline": deadline or 0.0, "overlap": rules.overlap}
            replies = self.sites.ask(
                "query",
                self.online() - (asked.keys() - forgetful),
                chosen,
                al_round=al_round,
                settings=settings,
                weights=weights or {},
            )
            for k, (counts, measured) in replies.items():
                asked[k] = counts
                local_only |= {k: pooled([measured])} if measured else {}
            for k in asked.keys() - self.members():
                del asked[k]
            for k, counts in asked.items():
                self.journal.note(k, al_round=al_round, **counts)
            self.journal.phase(f"AL round {al_round}: people are labelling")
            if self.labelling_is_over(asked, late=time.monotonic() >= begun + left):
                break
        # Where nothing is pending there is nothing to close.
        look({k for k, counts in asked.items() if counts["pending"]}, close=True)
        gained = {k: max(0, asked[k]["labelled_in_all"] - self.counts[k]) for k in sorted(asked)}
        return QueryPhase(
            [Query(k, torch.full((count,), HIDDEN), torch.zeros(count)) for k, count in gained.items()],
            [local_only[k] for k in sorted(local_only)] if len(local_only) == self.clients else [],
            {"query and labelling": time.monotonic() - begun},
        )

    def labelling_is_over(self, asked: Mapping[int, LabelCounts], late: bool) -> bool:
        """Skipped and flagged images are answered: a round ends when nothing is pending."""
        ready = sum(counts["pending"] == 0 for counts in asked.values())
        enough = ready >= math.ceil(self.plan.rules.quorum * len(self.members()))
        if not any(counts["labelled_in_all"] for counts in asked.values()):
            # There is nothing to learn from: better late than never, as long as somebody is still asked.
            return enough and ready == len(asked)
        return late or enough

    def label(self, queries: Sequence[Query]) -> list[Tensor]:
        for query in queries:
            self.counts[query.client] += len(query.samples)
        return [torch.full_like(query.samples, HIDDEN) for query in queries]

    def labelled(self) -> list[int]:
        members = self.members()
        return [count if k in members else 0 for k, count in enumerate(self.counts)]

    # --- the federated learning step

    def start_training(self, al_round: int, weights: Weights | None) -> Server:
        if weights is None:
            weights = self.spec.initial_weights(self.randomness.torch("initial weights", al_round))
        return self.algorithm.start_server(weights, self.parameters)

    def train(
        self, server: Server, al_round: int, fl_round: int, participants: Sequence[int]
    ) -> list[Update]:
        """The sound updates of the sites that are there; waits until there are enough of them."""
        self.fl_round = fl_round
        rounds = f"AL round {al_round}: FL round {fl_round + 1} of {self.plan.experiment.fl_rounds}"
        self.journal.phase(rounds)
        updates: dict[int, Update] = {}
        sent, expected_form = self.algorithm.sent(server), self.algorithm.example_update(server)

        def update(reply: Reply) -> Update:
            check_update(reply, server, expected_form, self.plan.rules.largest_step)
            return Update(whole_number(reply, "samples"), reply.weights, reply.state)

        for _ in looks():
            expected = self.members() & set(participants)
            updates |= self.sites.ask(
                "train",
                self.online() & expected - updates.keys(),
                update,
                al_round=al_round,
                fl_round=fl_round,
                weights=sent.weights,
                state=sent.state,
            )
            if len(updates) >= min(self.plan.rules.minimum_sites, len(expected)):
                break
            self.journal.phase(f"{rounds}, waiting for more sites")
        for k in updates:
            self.journal.note(k, al_round=al_round, fl_round=fl_round + 1)
        return [updates[k] for k in sorted(updates)]

    def evaluate(self, weights: Weights) -> Evaluation | None:
        """The global model on all sites' test images together; NaN where there are none."""
        done = self.fl_round + 1
        if done % self.plan.rules.evaluate_every and done < self.plan.experiment.fl_rounds:
            return None
        classes = self.spec.classes
        results = self.sites.ask(
            "evaluate", self.online(), lambda reply: tested(reply, classes), weights=weights
        )
        evaluation = pooled([Tested.none(classes), *results.values()])
        self.journal.accuracy(evaluation.accuracy)
        return evaluation

    def snapshot(self) -> list[State]:
        return []  # each site remembers its own state

    def restore(self, server: Server, snapshot: list[State]) -> Server:
        return replace(server, parameters=tuple(self.parameters))

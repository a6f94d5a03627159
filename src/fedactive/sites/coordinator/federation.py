"""The sites as a `Federation`: the loop's calls become requests, and the replies are checked and counted.

Which samples were chosen and what they are stays at the sites. Here a chosen sample is only counted: it
appears in the run folder as sample -1 with label -1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from fedactive.data.budget import budget_until
from fedactive.errors import RunError
from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, Update, make_algorithm
from fedactive.federated.weights import Weights
from fedactive.federation import Kept, Query, QueryPhase
from fedactive.randomness import Randomness
from fedactive.sites.coordinator.best_model import BestModel
from fedactive.sites.coordinator.checks import (
    LabelCounts,
    add_up,
    check_effect,
    check_update,
    read_confusion,
    read_evaluation,
    read_label_counts,
    read_moments,
    read_whole_number,
)
from fedactive.sites.coordinator.correspondence import Correspondence, keep_looking
from fedactive.sites.coordinator.journal import Journal
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.coordinator.status import Activity, Phase
from fedactive.sites.coordinator.summary import LASTING, agree
from fedactive.sites.messages import Reply, Transport
from fedactive.sites.moments import FEWEST, standardisation_of, to_text

T = TypeVar("T")

HIDDEN = -1  # stands for every sample and label that only the site knows


class Sites:
    """A `Federation` of real sites."""

    def __init__(
        self, plan: FieldPlan, transport: Transport, journal: Journal, dismissed: Callable[[], set[int]]
    ) -> None:
        e = plan.experiment
        self.dismissed = dismissed
        self.plan = plan
        self.journal = journal
        self.sites = Correspondence(plan, transport, journal)
        self.clients = e.clients
        self.randomness = Randomness(e.seed)
        self.algorithm = make_algorithm(e.algorithm, e.algorithm_options)
        self.spec = plan.spec
        self.parameters = [name for name, _ in self.spec.build().named_parameters()]
        self.counts = [0] * e.clients  # labels of each site, as far as counted
        self.best = BestModel(journal.folder, plan.rules.collapse)

    def members(self) -> set[int]:
        """The sites that were not dismissed. Nobody waits for the others, and their labels do not count."""
        dismissed = self.dismissed()
        for k in dismissed:
            self.journal.update_site(k, dismissed=True)
        if len(dismissed) == self.clients:
            raise RunError("all sites of this run were dismissed")
        return set(range(self.clients)) - dismissed

    def online(self) -> set[int]:
        return self.sites.online() & self.members()

    def images(self) -> list[int]:
        """How many images each site holds."""
        found = self.ask_all("hello", "waiting", lambda _, reply: read_whole_number(reply, "images"))
        return [found.get(k, 0) for k in range(self.clients)]

    def standardisation(self) -> str:
        """Have all sites embed their images; return how to standardise features, or nothing without any."""
        if not self.plan.experiment.backbone:
            return ""
        features = self.spec.input_shape[0]
        found = self.ask_all("embed", "embedding", lambda _, reply: read_moments(reply, features))
        if not any(moments.images for moments in found.values()):
            raise RunError(f"no site has {FEWEST} images, so nothing is known of their features")
        return to_text(standardisation_of([found[k] for k in sorted(found)]))

    def ask_all(self, kind: str, activity: Activity, read: Callable[[int, Reply], T]) -> dict[int, T]:
        """Ask every site once, and wait until each has been online and has answered."""
        found: dict[int, T] = {}
        for _ in keep_looking():
            found |= self.sites.ask(kind, self.online() - found.keys(), read)
            members = self.members()
            missing = [self.journal.sites[k] for k in sorted(members - found.keys())]
            if not missing:
                break
            self.journal.enter(Phase(activity, sites=tuple(missing)))
        return {k: found[k] for k in sorted(members)}

    # --- the active learning step

    def query(self, al_round: int, weights: Weights | None, agreed: list[float] | None = None) -> QueryPhase:
        """Ask every site to choose, and wait until its people have labelled, or for the quorum or deadline.

        A site that comes back meanwhile is asked then; one that is away when the round ends adds no labels.
        """
        begun, rules = time.monotonic(), self.plan.rules
        self.journal.enter(Phase("choosing", al_round))
        deadline = self.journal.deadline(al_round, rules.deadline * 3600)
        # A clock that is set meanwhile neither ends the round nor prolongs it.
        left = math.inf if deadline is None else min(deadline - time.time(), rules.deadline * 3600)
        agreed = agree(self, al_round, weights, begun + left)
        asked: dict[int, LabelCounts] = {}
        local_only: dict[int, Evaluation] = {}

        def read_counts(k: int, reply: Reply) -> LabelCounts:
            allowed = budget_until(self.journal.budgets or (0,), al_round)
            return read_label_counts(reply, min(self.journal.most_images(k), allowed))

        def read_choice(k: int, reply: Reply) -> tuple[LabelCounts, Evaluation | None]:
            if "images" in reply.values:  # else it is of a version for which none comes or goes
                self.journal.count_images(k, read_whole_number(reply, "images"))
            measured = read_evaluation(reply, self.spec.classes) if "tested" in reply.values else None
            return read_counts(k, reply), measured

        def update_counts(sites: set[int], close: bool) -> set[int]:
            """Ask these sites how far they are; return those that are online and did not answer."""
            there, settings = self.online() & sites, {"close": int(close), "deadline": deadline or 0.0}
            counts = self.sites.ask("label_status", there, read_counts, al_round=al_round, settings=settings)
            asked.update(counts)
            return there - counts.keys()

        for _ in keep_looking():
            # A site whose folder was restored from before this round does not know that it was asked.
            forgetful = update_counts(set(asked), close=False)
            settings: dict[str, Any] = {"deadline": deadline or 0.0, "overlap": rules.overlap}
            settings |= {} if agreed is None else {"agreed": agreed}
            replies = self.sites.ask(
                "query",
                self.online() - (asked.keys() - forgetful),
                read_choice,
                al_round=al_round,
                settings=settings,
                weights=weights or {},
            )
            for k, (counts, measured) in replies.items():
                asked[k] = counts
                local_only |= {k: add_up([measured], self.spec.classes)} if measured else {}
            for k in asked.keys() - self.members():
                del asked[k]
            for k, counts in asked.items():
                self.journal.update_site(k, al_round=al_round, **counts)
            self.journal.enter(Phase("labelling", al_round))
            if self.labelling_is_over(asked, late=time.monotonic() >= begun + left):
                break
        # Where nothing is pending there is nothing to close.
        update_counts({k for k, counts in asked.items() if counts["pending"]}, close=True)
        gained = {k: max(0, asked[k]["labelled_in_all"] - self.counts[k]) for k in sorted(asked)}
        return QueryPhase(
            [Query(k, torch.full((count,), HIDDEN), torch.zeros(count)) for k, count in gained.items()],
            [local_only[k] for k in sorted(local_only)] if len(local_only) == self.clients else [],
            {"query and labelling": time.monotonic() - begun},
            self.journal.agreed(LASTING),
        )

    def labelling_is_over(self, asked: Mapping[int, LabelCounts], late: bool) -> bool:
        """A site is ready when nothing is pending there; skipped and flagged images are answered, too."""
        ready = sum(counts["pending"] == 0 for counts in asked.values())
        enough = ready >= math.ceil(self.plan.rules.quorum * len(self.members()))
        if not any(counts["labelled_in_all"] for counts in asked.values()):
            # There is nothing to learn from yet: wait beyond the deadline while somebody may still label.
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
        """Return the sound updates of the sites that are online; wait until there are enough of them."""
        phase = Phase("training", al_round, fl_round + 1, self.plan.experiment.fl_rounds)
        self.journal.enter(phase)
        updates: dict[int, Update] = {}
        sent, expected_form = self.algorithm.client_view(server), self.algorithm.example_update(server)

        def read_update(k: int, reply: Reply) -> Update:
            check_update(reply, server, expected_form, self.plan.rules.largest_step)
            # A site's weight in the mean is what was counted here, whatever it claims.
            samples = min(read_whole_number(reply, "samples"), self.counts[k])
            update = Update(samples, reply.weights, reply.state)
            both = [update, replace(expected_form, samples=samples)]
            after = self.algorithm.server_end(server, both, self.clients)
            check_effect(server, after, self.plan.rules.largest_step)
            return update

        for _ in keep_looking():
            expected = self.members() & set(participants)
            updates |= self.sites.ask(
                "train",
                self.online() & expected - updates.keys(),
                read_update,
                al_round=al_round,
                fl_round=fl_round,
                weights=sent.weights,
                state=sent.state,
            )
            if len(updates) >= min(self.plan.rules.minimum_sites, len(expected)):
                break
            self.journal.enter(replace(phase, too_few_sites=True))
        for k in updates:
            self.journal.update_site(k, al_round=al_round, fl_round=fl_round + 1)
            self.journal.add_to(k, "updates", 1)
        return [updates[k] for k in sorted(updates)]

    def evaluate(self, server: Server, al_round: int, fl_round: int) -> tuple[Server, Evaluation | None]:
        """The global model on all sites' test images together; NaN where there are none.

        If the accuracy has collapsed, go back to the best model of this AL round.
        """
        done = fl_round + 1
        if done % self.plan.rules.evaluate_every and done < self.plan.experiment.fl_rounds:
            return server, None
        classes = self.spec.classes

        def read_result(_: int, reply: Reply) -> tuple[Evaluation, list[int]]:
            measured = read_evaluation(reply, classes)
            return measured, read_confusion(reply, measured)

        results = self.sites.ask(
            "evaluate",
            self.online(),
            read_result,
            weights=server.weights,
        )
        self.journal.set_results(al_round, fl_round, results)
        evaluation = add_up([measured for measured, _ in results.values()], classes)
        best = self.best.judge(server, evaluation, al_round, fl_round)
        if best:
            then, now = (f"{measured.accuracy:.1%}" for measured in (best.evaluation, evaluation))
            where = f"AL round {al_round}, FL round {done}"
            again = f"going on from FL round {best.fl_round + 1}"
            fell = f"the model of {where}: its accuracy fell from {then} to {now}; {again}"
            self.journal.add_dropped(fell, "collapse")
            server, evaluation = replace(server, weights=best.weights, state=best.state), best.evaluation
        self.journal.set_accuracy(al_round, fl_round, evaluation.accuracy)
        return server, evaluation

    def snapshot(self) -> list[Kept]:
        return []  # each site remembers its own state

    def restore(self, server: Server, snapshot: list[Kept]) -> Server:
        return replace(server, parameters=tuple(self.parameters))

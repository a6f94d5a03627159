"""Judge methods: ranks, tests of all pairs, the labels that random would need, cost.

Two methods are compared by their areas under the budget curve (the mean accuracy on the way): see areas.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from fedactive.analysis.areas import Rivals, standing, test_areas
from fedactive.analysis.label_saving import labels_needed
from fedactive.analysis.ranks import Ranks, rank_methods
from fedactive.benchmark.points import areas, mean_scores, of_all_methods
from fedactive.benchmark.suite import BASELINE, Suite


@dataclass(frozen=True)
class Verdict:
    suite: Suite
    points: pd.DataFrame  # as `read_points` makes them

    @cached_property
    def methods(self) -> list[str]:
        """List the methods that have runs, the best first."""
        there = [entry.label for entry in self.suite.entries if entry.label in set(self.points["method"])]
        means = self.mean_areas
        ranks = self.ranks.means if self.ranks.comparisons else pd.Series(dtype=float)
        return sorted(there, key=lambda name: (ranks.get(name, np.inf), -means.get(name, -np.inf)))

    @cached_property
    def absent(self) -> list[str]:
        return [e.label for e in self.suite.entries if e.label not in set(self.points["method"])]

    @cached_property
    def areas(self) -> pd.DataFrame:
        return areas(self.points)

    @cached_property
    def shared_areas(self) -> pd.DataFrame:
        """Return the areas of settings and seeds in which every method with a complete run has one."""
        return of_all_methods(self.areas, ["setting", "seed"])

    @property
    def shared_settings(self) -> list[str]:
        return list(map(str, self.shared_areas["setting"].unique()))

    @property
    def mean_areas(self) -> pd.Series:
        """Return the mean accuracy on the way by method, each of the shared settings weighing the same."""
        return self.shared_areas.groupby(["method", "setting"])["area"].mean().groupby("method").mean()

    @cached_property
    def ranks(self) -> Ranks:
        return rank_methods(mean_scores(self.points))

    @cached_property
    def tests(self) -> pd.DataFrame:
        """Test all pairs: `i, j, n` differences, `mean_difference` (i minus j), `p_holm`, `significant`."""
        return test_areas(self.areas.rename(columns={"method": "strategy"}))

    def standing(self, method: str) -> Rivals:
        """Say which methods this one is significantly better and worse than, in the order of ranks."""
        return standing(self.tests, method, self.methods)

    def sentence(self, method: str) -> str:
        """Say in one sentence how a method did."""
        if method not in self.methods:
            return f"{method} has no runs yet."
        if method not in set(self.areas["method"]):
            return f"{method} has no run to the end of the suite yet, so it cannot be judged."
        stands = self.standing(method)
        parts = [
            f"{what} {', '.join(names)}"
            for what, names in (("better than", stands.better), ("worse than", stands.worse))
            if names
        ]
        if stands.undecided:
            parts.append(f"undecided with {self.evidence(method)} against {', '.join(stands.undecided)}")
        if not parts:
            return f"{method} is alone: there is no other method with runs."
        place = f", rank {self.ranks.means[method]:.1f} of {len(self.ranks.means)}" if self.ranked else ""
        return f"{method}{place}: {'; '.join(parts)}."

    def evidence(self, method: str) -> str:
        """Say how many runs a method is judged by: `4 seeds in 2 settings`."""
        own = self.areas[self.areas["method"] == method]
        seeds, settings = own["seed"].nunique(), own["setting"].nunique()
        text = f"{seeds} seed{'s' if seeds > 1 else ''}"
        return text + (f" in {settings} settings" if settings > 1 else "")

    @property
    def ranked(self) -> bool:
        return self.ranks.comparisons > 0 and len(self.ranks.means) > 1

    def needed_by_random(self) -> pd.DataFrame:
        """Return the labels that random would have needed: a row per method and setting, a column per round.

        It is inf where random never got there. Its first budget stands for that or fewer. Both are means over
        the seeds that both have.
        """
        rows = {}
        for setting, part in self.points.groupby("setting", sort=False):
            random = part[part["method"] == BASELINE]
            for method in self.methods:
                own = part[(part["method"] == method) & part["seed"].isin(random["seed"])]
                if method == BASELINE or own.empty:
                    continue
                same = random[random["seed"].isin(own["seed"])]
                curve = same.groupby("al_round")[["labelled", "accuracy"]].mean()
                later = own[own["al_round"] > 1].groupby("al_round")["accuracy"].mean()
                rows[method, setting] = {
                    al_round: labels_needed(curve["labelled"], curve["accuracy"], accuracy)
                    for al_round, accuracy in later.items()
                }
        index = pd.MultiIndex.from_tuples(rows, names=["method", "setting"]) if rows else None
        return pd.DataFrame(list(rows.values()), index=index)

    def cost(self) -> pd.Series:
        """Return the mean seconds of a query for one client, by method, over settings and later AL rounds."""
        later = self.points[self.points["al_round"] > 1]
        each = later.groupby(["method", "setting"])["seconds"].mean()
        return each.groupby("method").mean()

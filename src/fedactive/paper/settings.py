"""The paper's 38 experimental settings, and its names for strategies, as experiments.

A setting fixes everything but the strategy and the seed, and whose model chooses is part of it: Random and
LoGo, which leave no choice, are the same runs in the `global` and in the `local` half of the settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fedactive.experiment import Experiment
from fedactive.paper import paper_table
from fedactive.registry import STRATEGIES

SEEDS = (1, 2, 3, 4)
SEEDS_OF_ALGORITHMS = (1, 2, 3)  # FedProx and SCAFFOLD were run three times
COMPARED = ("random", "entropy", "coreset", "badge", "gcnal", "alfamix", "logo")  # in the paper's order

# The paper's numbers come from its own clients, so they are compared on these.
PAPER = {"partition": "reference", "schedule": "paper"}

BALANCED = ("cifar10", "pathmnist")  # rho < 2; SVHN has 2.97, OrganAMNIST 4.54, DermaMNIST 58.66
FAMILIES = ("ensemble_logit", "ensemble_rank", "finetune")  # strategies made of another one, their `base`


@dataclass(frozen=True)
class PaperSetting:
    """One row of the paper's summary of experimental combinations."""

    number: int  # from 1, in the paper's order
    selector: str
    alpha: float
    dataset: str
    model: str
    budget: float
    init: str

    @property
    def title(self) -> str:
        """The same for two settings that differ only in whose model chooses."""
        return (
            f"{self.dataset}, alpha {self.alpha:g}, {self.model}, budget {self.budget:g}%, {self.init} start"
        )

    @property
    def categories(self) -> dict[str, str]:
        """Where the setting stands in the six categories of the paper's Figure 4."""
        return {
            "query selector": self.selector,
            "heterogeneity": f"alpha {self.alpha:g}",
            "imbalance": "rho < 2" if self.dataset in BALANCED else "rho ≥ 2",
            "architecture": self.model,
            "budget": f"{self.budget:g}%",
            "initialisation": self.init,
        }

    def experiment(self, strategy: str, **overrides: Any) -> Experiment:
        """The experiment of one strategy, by the paper's name; `overrides` are settings of Experiment."""
        own = {name: getattr(self, name) for name in ("alpha", "dataset", "model", "budget", "init")}
        return paper_experiment(strategy, self.selector, **(own | overrides))


def all_settings() -> list[PaperSetting]:
    """The 38, numbered as in the paper."""
    columns = {"budget_percent": "budget", "initialisation": "init"}
    rows = paper_table("settings").rename(columns=columns).to_dict("records")
    return [
        PaperSetting(number=i, **{str(name): value for name, value in row.items()})
        for i, row in enumerate(rows, 1)
    ]


def experiments_of(
    setting: PaperSetting,
    strategies: Iterable[str] = COMPARED,
    seeds: Iterable[int] = SEEDS,
    **overrides: Any,
) -> list[Experiment]:
    """All runs of a setting; `overrides` are settings of Experiment (fl_rounds=20, runs_dir=...)."""
    seeds = tuple(seeds)
    return [setting.experiment(name, seed=seed, **overrides) for name in strategies for seed in seeds]


def paper_experiment(
    strategy: str, selector: str, *, alfamix_head: str = "own", **settings: Any
) -> Experiment:
    """The experiment of a strategy of the paper's tables: `finetune_badge` is finetune with base=badge.

    `settings` are those of Experiment. With the `alfamix_head` "global" ALFA-Mix by the local-only model is
    what the released code has for it.
    """
    head = f"head={alfamix_head}"
    STRATEGIES.options("alfamix", head)  # refuses another one whatever the strategy is
    options = head if (strategy, selector) == ("alfamix", "local") else ""
    for family in FAMILIES:
        if strategy.startswith(f"{family}_"):
            strategy, options = family, "base=" + strategy.removeprefix(f"{family}_")
    if len(STRATEGIES[strategy].selectors) == 1:
        selector = "auto"  # there is nothing to choose, whatever the table or the setting says
    query = {"strategy": strategy, "selector": selector, "strategy_options": options}
    return Experiment(**(PAPER | query | settings))

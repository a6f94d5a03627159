"""The paper's 38 experimental settings, and its names for strategies, as experiments.

A setting fixes everything but the strategy and the seed. Whose model chooses is part of it. Random and LoGo
leave no such choice, so they have the same runs in the `global` and the `local` half of the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.paper import paper_table
from fedactive.registry import STRATEGIES

SEEDS = (1, 2, 3, 4)
SEEDS_OF_ALGORITHMS = (1, 2, 3)  # FedProx and SCAFFOLD were run three times
COMPARED = ("random", "entropy", "coreset", "badge", "gcnal", "alfamix", "logo")  # in the paper's order

# The paper's numbers come from the clients of its released code, so we compare on the same clients.
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
        """Name the setting without its selector: two settings that differ only in that share a title."""
        return (
            f"{self.dataset}, alpha {self.alpha:g}, {self.model}, budget {self.budget:g}%, {self.init} start"
        )

    def experiment(self, strategy: str, **overrides: Any) -> Experiment:
        """Make the experiment of a strategy, by the paper's name; `overrides` are settings of Experiment."""
        own = {name: getattr(self, name) for name in ("alpha", "dataset", "model", "budget", "init")}
        return paper_experiment(strategy, self.selector, **(own | overrides))


# All settings together, then the six categories of Figure 4, each with the value that a setting has in it.
CATEGORIES: dict[str, Callable[[PaperSetting], str]] = {
    "overall": lambda setting: "",
    "query selector": lambda setting: setting.selector,
    "heterogeneity": lambda setting: f"alpha {setting.alpha:g}",
    "imbalance": lambda setting: "rho < 2" if setting.dataset in BALANCED else "rho ≥ 2",
    "architecture": lambda setting: setting.model,
    "budget": lambda setting: f"{setting.budget:g}%",
    "initialisation": lambda setting: setting.init,
}


def seed_range(text: str) -> range:
    """Read seeds: `4` is 1 to 4, `5-16` is 5 to 16."""
    first, dash, last = text.partition("-")
    try:
        seeds = range(int(first), int(last) + 1) if dash else range(1, int(first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds or seeds[0] < 1:
        raise ConfigurationError("seeds", text, "how many, as in 4, or from and to, as in 5-16")
    return seeds


def setting_numbers(text: str) -> list[int]:
    """Read numbers of settings, as in `1-9,16`."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            numbers += range(int(first), int(last or first) + 1)
        except ValueError:
            numbers.append(0)
    count = len(all_settings())
    if not numbers or not set(numbers) <= set(range(1, count + 1)):
        raise ConfigurationError("settings", text, f"numbers from 1 to {count}, as in 1-9,16")
    return numbers


def all_settings() -> list[PaperSetting]:
    """List the 38 settings, numbered as in the paper."""
    columns = {"budget_percent": "budget", "initialisation": "init"}
    rows = paper_table("settings").rename(columns=columns).to_dict("records")
    return [
        PaperSetting(number=i, **{str(name): value for name, value in row.items()})
        for i, row in enumerate(rows, 1)
    ]


def paper_experiment(
    strategy: str, selector: str, *, alfamix_head: str = "own", **settings: Any
) -> Experiment:
    """Make the experiment of a strategy of the paper's tables: `finetune_badge` is finetune with base=badge.

    `settings` are those of Experiment. The `alfamix_head` "released" gives ALFA-Mix by the local-only model
    the head that it has in the released code.
    """
    head = f"head={alfamix_head}"
    STRATEGIES.options("alfamix", head)  # refuses an unknown head, whatever the strategy is
    options = head if (strategy, selector) == ("alfamix", "local") else ""
    for family in FAMILIES:
        if strategy.startswith(f"{family}_"):
            strategy, options = family, "base=" + strategy.removeprefix(f"{family}_")
    if len(STRATEGIES[strategy].selectors) == 1:
        selector = "auto"  # there is nothing to choose, whatever the table or the setting says
    query = {"strategy": strategy, "selector": selector, "strategy_options": options}
    return Experiment(**(PAPER | query | settings))

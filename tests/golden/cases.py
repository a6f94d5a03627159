"""The experiments whose numbers are kept, as settings of `fedactive.Experiment`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Settings = dict[str, Any]

HERE = Path(__file__).parent
OWN_FILE = HERE / "mine.npz"  # 150 random images of 3 classes, 8×8

# A complete run in about half a second.
SMALL: Settings = {
    "dataset": "digits",
    "clients": 3,
    "alpha": 1.0,
    "augment": "none",
    "budget": 2.0,
    "rounds": 3,
    "fl_rounds": 2,
    "local_epochs": 2,
    "batch_size": 16,
    "lr": 0.1,
    "local_only_epochs": 3,
    "device": "cpu",
    "workers": 1,
}


def strategy(name: str, selector: str = "auto", options: str = "", **more: Any) -> Settings:
    return {"strategy": name, "selector": selector, "strategy_options": options, **more}


# Graphs take most of the time of these runs: fewer samples, fewer rounds.
GRAPH: Settings = {"rho": 20.0, "rounds": 2}
# Large models, as short as possible.
ONCE: Settings = {
    "strategy": "random",
    "clients": 2,
    "budget": 1.0,
    "rounds": 1,
    "fl_rounds": 1,
    "local_epochs": 1,
}

STRATEGIES: dict[str, Settings] = {
    "random": strategy("random"),
    **{
        f"{name}-{selector}": strategy(name, selector)
        for name in ("entropy", "margin", "least_confidence", "coreset", "badge", "alfamix")
        for selector in ("global", "local")
    },
    "alfamix-global-head": strategy("alfamix", "local", "head=global"),
    "alfamix-released-head": strategy("alfamix", "local", "head=released"),
    "gcnal-global": strategy("gcnal", "global", **GRAPH),
    "gcnal-local": strategy("gcnal", "local", **GRAPH),
    "logo": strategy("logo"),
    "logo-margin": strategy("logo", options="micro=margin"),
    **{
        f"{name}-{base}": strategy(name, "both", f"base={base}")
        for name in ("ensemble_logit", "ensemble_rank", "finetune")
        for base in ("entropy", "badge")
    },
}

LEARNING: dict[str, Settings] = {
    "fedprox": {"algorithm": "fedprox"},
    "fedprox-mu": {"strategy": "entropy", "algorithm": "fedprox", "mu": 0.1},
    "scaffold": {"algorithm": "scaffold", "fl_rounds": 3},
    "scaffold-part": {"algorithm": "scaffold", "participation": 0.5, "fl_rounds": 3, "strategy": "entropy"},
    "participation": {"strategy": "entropy", "participation": 0.5, "clients": 5, "rounds": 2},
    "continue": {"init": "continue", "strategy": "badge"},
    "continue-scaffold": {"strategy": "entropy", "init": "continue", "algorithm": "scaffold"},
    "schedule-reference": {"schedule": "reference", "fl_rounds": 4, "rounds": 2},
    "schedule-paper": {"strategy": "entropy", "schedule": "paper", "fl_rounds": 4, "rounds": 2},
    "partition-reference": {"strategy": "entropy", "partition": "reference", "rounds": 2},
    "partition-reference-skewed": {
        "strategy": "entropy",
        "partition": "reference",
        "alpha": 0.1,
        "clients": 5,
        "rounds": 2,
    },
    "rho": {"strategy": "entropy", "rho": 10.0, "rounds": 2},
    "alpha-low": {"strategy": "entropy", "alpha": 0.1, "clients": 4, "rounds": 2},
    "alpha-inf": {"strategy": "entropy", "alpha": float("inf"), "rounds": 2},
    "flip": {"augment": "flip", "rounds": 2},
    "seed": {"seed": 7, "strategy": "random"},
    "until-nothing-is-left": {
        "strategy": "margin",
        "budget": 40.0,
        "fl_rounds": 1,
        "local_epochs": 1,
        "batch_size": 64,
    },
    "bf16": {"precision": "bf16", "rounds": 2},
    "fp32": {"strategy": "entropy", "precision": "fp32", "rounds": 2},
    "resnet18": {**ONCE, "model": "resnet18"},
    "mobilenet": {**ONCE, "model": "mobilenet"},
    "own-file": {"dataset": str(OWN_FILE), "budget": 6.0, "strategy": "logo"},
}

RUNS = {name: SMALL | settings for name, settings in (STRATEGIES | LEARNING).items()}

# These give the same numbers with worker processes.
PARALLEL = ("flip", "scaffold-part")

# `fedactive compare`: two runs that share AL round 1; mu says nothing to fedavg, nor the option to random.
GRID = {
    **SMALL,
    "strategy": "logo,random",
    "strategy_options": "micro=margin",
    "mu": "0.1",
    "rounds": 2,
    "fl_rounds": 1,
    "local_epochs": 1,
}

# Names of runs, by any settings; `mine.npz` and `Other pictures.npz` lie in the working folder.
NAMED: list[Settings] = [
    {},
    {"dataset": "digits"},
    {"dataset": "svhn"},
    {"dataset": "fashion_mnist"},
    {"dataset": "pathmnist"},
    {"dataset": "dermamnist"},
    {"dataset": "organamnist"},
    {"seed": 2},
    {"seed": 2**63 - 1},
    {"clients": 5},
    {"clients": 100, "participation": 0.1},
    {"alpha": float("inf")},
    {"alpha": 1},
    {"alpha": 0.01, "rho": 20},
    {"rho": 58.0},
    {"partition": "reference"},
    {"schedule": "reference"},
    {"partition": "reference", "schedule": "reference", "precision": "fp32"},
    {"augment": "none"},
    {"strategy": "random"},
    {"strategy": "entropy"},
    {"strategy": "entropy", "selector": "local"},
    {"strategy": "badge", "selector": "global"},
    {"strategy": "coreset", "selector": "local"},
    {"strategy": "gcnal", "budget": 1.25},
    {"strategy": "least_confidence", "rounds": 3},
    {"strategy": "alfamix", "strategy_options": "head=own"},
    {"strategy": "alfamix", "selector": "local", "strategy_options": "head=global"},
    {"strategy": "logo", "selector": "both", "strategy_options": "micro=entropy"},
    {"strategy": "logo", "strategy_options": "micro=least_confidence"},
    {"strategy": "ensemble_logit", "strategy_options": " base = badge "},
    {"strategy": "ensemble_rank"},
    {"strategy": "finetune", "strategy_options": "base=badge"},
    {"algorithm": "fedprox"},
    {"algorithm": "fedprox", "mu": 0.01},
    {"algorithm": "fedprox", "mu": 0.1},
    {"algorithm": "fedprox", "mu": 0},
    {"algorithm": "fedavg", "mu": 0.1},  # says nothing: the name is that of the same run without it
    {"algorithm": "scaffold"},
    {"algorithm": "scaffold", "mu": 1},
    {"init": "continue", "model": "resnet18"},
    {"model": "mobilenet", "precision": "bf16"},
    {"fl_rounds": 20, "local_epochs": 1, "batch_size": 10, "lr": 0.1, "momentum": 0, "weight_decay": 0.0005},
    {"local_only_epochs": 10, "local_only_stop": 1.0},
    {"device": "cpu", "workers": 3, "runs_dir": "elsewhere", "data_dir": "there", "rounds": 2},
    {"dataset": "mine.npz"},
    {"dataset": "mine.npz", "strategy": "margin", "algorithm": "fedprox", "mu": 1.0},
    {"dataset": "./Other pictures.npz", "seed": 3},
]

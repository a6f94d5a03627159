"""What a coordinator says about a run, read and checked before anything is done."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from fedactive.data.catalog import DatasetCard
from fedactive.data.own_features import Standardisation
from fedactive.experiment import Experiment, parse_toml
from fedactive.federated.algorithm import make_algorithm, sends_more_than_weights
from fedactive.sites.card import card_from_plain
from fedactive.sites.messages import Request
from fedactive.sites.moments import from_text
from fedactive.sites.privacy import Cover
from fedactive.sites.site.own_backbone import with_own_backbone


@dataclass(frozen=True)
class RunSettings:
    run: str
    experiment: Experiment
    card: DatasetCard
    client: int  # the number of this site in the federation, from which its randomness comes
    clients: int  # how many sites the federation has
    budgets: tuple[int, ...]  # labels per AL round; the last one repeats
    cover: Cover
    standardisation: Standardisation | None  # of features; none before all sites have embedded


def read_settings(request: Request, device: str, backbones: Path) -> RunSettings:
    """Read the settings of the run that this request is about; an exception says what is wrong with them."""
    given = request.settings["run"]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,150}", request.run):  # it names a folder here
        raise ValueError(f"not a name of a run: {request.run!r}")
    card = card_from_plain(given["images"])
    here = {"clients": 1, "workers": 1, "device": device}
    values = with_own_backbone(parse_toml(given["experiment"]), backbones)
    # Since it has a card, no dataset is looked up: a path in the settings, and whether it is refused,
    # would tell the coordinator which files are here.
    experiment = Experiment.from_values(values | here, described=card)
    client, clients = int(given["client"]), int(values.get("clients", Experiment.clients))
    budgets = tuple(map(int, given["budget"]))
    cover = Cover(float(given["clip"]), float(given["noise"]))
    sizes = (client, clients - 1, len(budgets) - 1, *budgets, cover.clip, cover.noise)
    if min(sizes) < 0 or not all(map(math.isfinite, sizes)):
        raise ValueError(f"client {client} of {clients}, budgets {budgets}, {cover}")
    algorithm = make_algorithm(experiment.algorithm, experiment.algorithm_options)
    if cover.clip and sends_more_than_weights(algorithm):  # a plan cannot say so, a message can
        raise ValueError(f"run {request.run} would send more than what is covered")
    text = given.get("standardisation")
    how = from_text(text) if text else None
    return RunSettings(request.run, experiment, card, client, clients, budgets, cover, how)

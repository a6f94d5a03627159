"""FedAvg (McMahan et al., AISTATS 2017): the mean of the clients' weights, by their labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from fedactive.federated.aggregation import Averaging
from fedactive.federated.algorithm import Server, Update, register


@final
@register
@dataclass(frozen=True)
class FedAvg(Averaging):
    name = "fedavg"
    summary = "the mean of the clients' weights, by their labelled data"
    paper = "McMahan et al., AISTATS 2017"

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        return replace(server, weights=self.aggregate(server, updates))

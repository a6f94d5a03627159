"""What coordinator and sites say to each other, whatever carries it.

A request names its run, AL round and FL round. A site that is asked again gives the same answer again. A
reply holds weights, counts and metrics, and nothing else.

    hello           how many images do you hold, and do our classes agree?
    embed           turn your images into features by the run's backbone: what do they add up to?
    summary         here is the global model: what few numbers does the strategy have you say of yourself?
    query           here is the global model: train your local-only model, choose, ask your people for labels
    label_status    how far are your people? (close = 1: the round is over, what comes now is for the next)
    train           here is the global model: train it on your labels and send back the result
    evaluate        how good is this model on your test images?
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedactive import __version__
from fedactive.federated.algorithm import State
from fedactive.federated.weights import Weights

KINDS = ("hello", "embed", "summary", "query", "label_status", "train", "evaluate")

# All that a site says about a failure: its own log has the rest, which may name files and people.
FAILED = "failed, see the log of the site"
OTHER_CLASSES = "has other classes than the coordinator"
OTHER_VERSION = "cannot read the settings; is its fedactive of the same version?"
NOT_ASKED = "was not asked for labels in this round"
NO_LABELS = "has no labels yet"
UNREADABLE = "sent something that cannot be read"  # said by the coordinator
NOT_FINITE = "was sent numbers that are not finite, and did nothing"
DIVERGED = "sent nothing: its training led to numbers that are not finite"
OTHER_MODEL = "was sent weights that do not fit the model"
OTHER_BACKBONE = "has not the backbone of the run, or another one under its name; its log says which"
PROBLEMS = (
    *(FAILED, OTHER_CLASSES, OTHER_VERSION, NOT_ASKED, NO_LABELS, UNREADABLE, NOT_FINITE, DIVERGED),
    OTHER_MODEL,
    OTHER_BACKBONE,
)

# The version of fedactive, sent along with FAILED and OTHER_VERSION: as numbers, for a reply holds no words.
VERSION = [int(number) for number in re.findall(r"\d+", __version__)[:3]]

Value = int | float | list[int] | list[float]


@dataclass(frozen=True)
class Request:
    kind: str
    run: str
    al_round: int = 0
    fl_round: int = 0
    settings: dict[str, Any] = field(default_factory=dict)  # plain values, the same in all requests of a step
    weights: Weights = field(default_factory=dict)
    state: State = field(default_factory=dict)  # what the algorithm sends beside them


@dataclass(frozen=True)
class Reply:
    values: dict[str, Value] = field(default_factory=dict)
    weights: Weights = field(default_factory=dict)
    state: State = field(default_factory=dict)
    problem: int = 0  # 0, or the position in PROBLEMS counted from 1


def failure() -> Reply:
    """Return what a site says when something went wrong, perhaps because the versions are not the same."""
    return Reply({"version": VERSION}, problem=1 + PROBLEMS.index(FAILED))


class Transport(Protocol):
    """Carries requests to sites, which are numbered from 0."""

    def online(self) -> set[int]: ...

    def ask(self, requests: Mapping[int, Request], seconds: float) -> dict[int, Reply]:
        """Return the replies that came in time; sites that failed or went away are missing."""

"""The learning half of a site: it answers the coordinator's requests, with the laboratory's own code.

The same request gets the same answer again: what was decided is on disk before the answer goes out.
"""

from __future__ import annotations

import logging
import math
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from fedactive import __version__
from fedactive.client import chooser
from fedactive.data.catalog import DatasetCard
from fedactive.data.own_features import scaled
from fedactive.errors import UserError
from fedactive.federated.algorithm import Server
from fedactive.federated.weights import Weights
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.messages import (
    DIVERGED,
    NO_LABELS,
    NOT_ASKED,
    NOT_FINITE,
    OTHER_BACKBONE,
    OTHER_CLASSES,
    OTHER_MODEL,
    OTHER_VERSION,
    PROBLEMS,
    VERSION,
    Reply,
    Request,
    Value,
    failure,
)
from fedactive.sites.moments import moments_of
from fedactive.sites.privacy import NotFiniteError, require_finite
from fedactive.sites.site.own_backbone import FOLDER as BACKBONES
from fedactive.sites.site.own_backbone import OtherBackboneError, embed_holdings
from fedactive.sites.site.query_log import read_query
from fedactive.sites.site.run_settings import RunSettings, read_settings
from fedactive.sites.site.site_run import Holdings, SiteRun

log = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request that this site cannot answer, for one of the reasons in PROBLEMS."""


class ImageSource(Protocol):
    """The images of a site, which may come and go."""

    def read_holdings(self, card: DatasetCard) -> Holdings:
        """Read them in the form that a run wants."""

    def state(self, card: DatasetCard) -> str:
        """Return the `state` that holdings would have if they were read now."""


class Trainer:
    def __init__(
        self,
        folder: Path,
        store: LabelStore,
        classes: tuple[str, ...],
        images: ImageSource,
        device: str = "auto",
    ) -> None:
        """`folder` is in that of the site."""
        self.folder = folder
        self.store = store
        self.classes = classes
        self.images = images
        self.device = device
        self.site_run: SiteRun | None = None  # of the last request
        self.opened: tuple[str, dict[str, Any]] | None = None  # its name and settings

    def answer(self, request: Request) -> Reply:
        """Answer any request. A problem is one of a few fixed sentences; the log here has the details."""
        handlers = {
            "hello": self.hello,
            "embed": self.embed,
            "summary": self.summary,
            "query": self.query,
            "label_status": self.label_status,
            "train": self.train,
            "evaluate": self.evaluate,
        }
        try:
            require_finite_request(request)
            return handlers[request.kind](request)
        except RefusedError as refusal:
            log.warning("%s refused: this site %s", request.kind, refusal)
            about: dict[str, Value] = {"version": VERSION} if str(refusal) == OTHER_VERSION else {}
            return Reply(about, problem=1 + PROBLEMS.index(str(refusal)))
        except Exception:
            log.exception("%s failed", request.kind)
            return failure()

    def close(self) -> None:
        """Forget the run; the next request opens one."""
        if self.site_run is not None:
            self.site_run.close()
        self.site_run = None

    # --- the requests

    def hello(self, request: Request) -> Reply:
        return Reply({"images": len(self.images.read_holdings(self.read_settings(request).card).images)})

    def embed(self, request: Request) -> Reply:
        known = self.read_settings(request)
        found = moments_of(self.embed_all(known, self.images.read_holdings(known.card)).images)
        return Reply({"images": found.images}, {"sums": found.sums, "squares": found.squares})

    def summary(self, request: Request) -> Reply:
        run = self.open_for_choice(request)
        if request.weights:  # none in the first round
            require_fitting(request.weights, run)
        told = run.summarise(request.al_round, request.weights or None)
        return Reply({} if told is None else {"summary": told})

    def query(self, request: Request) -> Reply:
        run = self.open_for_choice(request)
        overlap, deadline = request.settings["overlap"], deadline_of(request)
        if request.weights:  # none in the first round
            require_fitting(request.weights, run)
        agreed = read_agreed(request, run)
        query = run.query(request.al_round, request.weights or None, overlap, deadline, agreed)
        values = self.progress(run, request.al_round)
        if "known" in query:  # else it was asked by an earlier version, for which no image came or went
            values["images"] = query["known"] - len(query["gone"])
        for measured in query["local_only"]:
            if "predicted" in measured:  # else it was asked by an earlier version, which did not count these
                values |= measured
        return Reply(values)

    def label_status(self, request: Request) -> Reply:
        run = self.open(request)
        if run.queries.find(request.al_round) is None:
            raise RefusedError(NOT_ASKED)
        run.queries.open_missing()
        self.store.rounds.set_deadline(request.run, request.al_round, deadline_of(request))
        if request.settings["close"]:
            self.store.rounds.close(request.run, request.al_round)
        return Reply(self.progress(run, request.al_round))

    def train(self, request: Request) -> Reply:
        server = Server(request.weights, state=request.state)
        run = self.open(request)
        require_fitting(request.weights, run)
        try:
            update = run.train(server, request.al_round, request.fl_round)
        except NotFiniteError:
            raise RefusedError(DIVERGED) from None
        if update is None:
            raise RefusedError(NO_LABELS)
        return Reply({"samples": update.samples}, update.weights, update.state)

    def evaluate(self, request: Request) -> Reply:
        run = self.open(request)
        require_fitting(request.weights, run)
        return Reply(run.evaluate(request.weights))

    # --- for the page

    def guess(self, sample: int) -> tuple[int, float] | None:
        """Return the global model's class for an image when it was asked for, and the probability."""
        asking = self.store.rounds.find_for(sample)
        if asking is None:
            return None
        query = read_query(self.folder / asking.run, asking.al_round) or {}
        guesses = dict(zip(query.get("samples", []), query.get("guesses", []), strict=False))
        label, sure = guesses.get(sample, (None, 0.0))
        return None if label is None else (label, sure)  # none in the first round: there was no model yet

    # --- what the requests share

    def open(self, request: Request) -> SiteRun:
        """Return the run that this request is about. It stays open until a request is about another."""
        opened = (request.run, request.settings.get("run", {}))
        if self.site_run is not None and self.opened == opened:
            return self.site_run
        known = self.read_settings(request)
        if known.experiment.backbone and known.standardisation is None:
            log.warning("run %.150s: a standardisation of features is missing", request.run)
            raise RefusedError(OTHER_VERSION)
        self.close()
        held = self.images.read_holdings(known.card)
        if how := known.standardisation:
            held = self.embed_all(known, held)
            images, tests = scaled(held.images, how), scaled(held.test_images, how)
            held = replace(held, images=images, test_images=tests)
        folder = self.folder / known.run
        self.site_run = SiteRun(
            known.run,
            known.experiment,
            known.card,
            known.client,
            known.clients,
            known.budgets,
            known.cover,
            held,
            self.store,
            folder,
        )
        self.opened = opened
        return self.site_run

    def open_for_choice(self, request: Request) -> SiteRun:
        """Return the run with the images that are there now, unless this round has chosen already."""
        run = self.open(request)
        if run.queries.find(request.al_round) is None and self.images.state(run.card) != run.holdings.state:
            self.close()
            run = self.open(request)
        return run

    def read_settings(self, request: Request) -> RunSettings:
        try:
            known = read_settings(request, self.device, self.folder.parent / BACKBONES)
        except OtherBackboneError as error:
            log.warning("%s", error)
            raise RefusedError(OTHER_BACKBONE) from None
        except (UserError, ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            log.warning("settings of run %.150s: %s: %s", request.run, type(error).__name__, error)
            theirs = str(request.settings.get("run", {}).get("fedactive", "an earlier version"))
            log.warning("the coordinator has fedactive %.20s, this site %s", theirs, __version__)
            raise RefusedError(OTHER_VERSION) from None
        if known.card.classes != self.classes:
            raise RefusedError(OTHER_CLASSES)
        return known

    def embed_all(self, known: RunSettings, held: Holdings) -> Holdings:
        return embed_holdings(held, known.experiment, self.folder.parent / "cache" / "embeddings")

    def progress(self, run: SiteRun, al_round: int) -> dict[str, Value]:
        """Return how far people are, as counts: of this round, and of all labels of this run here."""
        counts: dict[str, Value] = asdict(self.store.counts(run.run, al_round))
        labels = self.store.labels()
        counts["labelled_in_all"] = sum(sample in labels for sample in run.queries.samples_until(al_round))
        return counts


def require_finite_request(request: Request) -> None:
    """Refuse a model with a NaN in it: it would spread to the update, whose norm nobody could clip."""
    try:
        require_finite(request.weights.values())
        for tensors in request.state.values():
            require_finite(tensors.values())
    except NotFiniteError:
        raise RefusedError(NOT_FINITE) from None


def require_fitting(weights: Weights, run: SiteRun) -> None:
    """Refuse weights of another model than the run is about."""
    form = {name: (w.shape, w.dtype) for name, w in weights.items()}
    if form != {name: (w.shape, w.dtype) for name, w in run.engine.model.state_dict().items()}:
        raise RefusedError(OTHER_MODEL)


def read_agreed(request: Request, run: SiteRun) -> list[float] | None:
    """Return the mean of what sites said of themselves; None if the strategy does not ask for it."""
    agreed = request.settings.get("agreed")
    numbers = chooser(run.client.experiment, bool(request.weights)).numbers
    if agreed is None or not numbers:
        return None
    values = [float(value) for value in agreed]
    if len(values) != numbers or not all(map(math.isfinite, values)):
        raise RefusedError(NOT_FINITE)
    return values


def deadline_of(request: Request) -> datetime | None:
    deadline = request.settings["deadline"]
    return datetime.fromtimestamp(deadline, UTC) if deadline else None

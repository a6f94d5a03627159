"""The model card: what a person must know who gets the file and was not there when it was trained."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path

from fedactive.captions import strategy_label
from fedactive.data.soundness import form
from fedactive.export.run_model import RunModel
from fedactive.export.usage import how_to_use
from fedactive.export.verify import Differences
from fedactive.federated.weights import Weights
from fedactive.record.run_reader import read_run
from fedactive.record.stored import ALRound, StoredRun
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.privacy import DELTA, Cover, epsilon, rho_of

Rows = Iterable[tuple[str, ...]]


def model_card(model: RunModel, file: str, sha256: str, differences: Differences) -> str:
    """Write the card of `file`, whose content has that hash."""
    run = read_run(model.folder)
    al_round = run.al_rounds[model.al_round - 1]
    d = model.description
    what = f"{d.model} on features of images by {d.backbone}" if d.backbone else d.model
    sections = [
        f"# {file}",
        f"A model ({what}) that tells {len(d.classes)} classes apart, trained by federated active learning.",
        "## How to use it",
        how_to_use(d, file),
        "## What it was trained on",
        table(("", ""), training(model, run, al_round)),
        "## How good it is",
        accuracy(model, al_round),
        table(("class", "labels", "accuracy on test samples"), by_class(model, run, al_round)),
        "This holds for samples like the test samples; on others it may be far worse. Whoever has the model "
        "may learn something about the samples it was trained on.",
        "## Privacy",
        privacy(model.plan, model.al_round),
        "## What exactly it is",
        table(("", "SHA-256"), hashes(model, file, sha256)),
        comparison(model, differences),
        table(("", ""), facts(run)),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def training(model: RunModel, run: StoredRun, al_round: ALRound) -> Rows:
    e = model.experiment
    name = Path(e.dataset).name  # where it lies is nobody's business
    yield "dataset", f"{name}, images that stay at the sites" if model.plan else name
    if e.card and e.card.licence:
        yield "its licence", e.card.licence
    yield "clients" if not model.plan else "sites", str(e.clients)
    share = f" of {run.samples:,} samples ({run.percent_labelled(al_round):.3g}%)" if run.samples else ""
    yield "labels used", f"{al_round.labelled:,}{share}"
    yield "active learning", f"{rounds(model.al_round)} with {strategy_label(vars(e))}"
    options = f" ({e.algorithm_options})" if e.algorithm_options else ""
    yield "federated learning", f"{rounds(e.fl_rounds)} with {e.algorithm}{options} in each of these"
    if e.objective != type(e).objective:
        options = f" ({e.objective_options})" if e.objective_options else ""
        yield "clients train with", f"{e.objective}{options}"
    if not model.plan:
        drawn = f"alpha {e.alpha:g}, rho {e.rho:g} ({e.partition})"
        yield "partition", "as the data have it" if e.partition == "given" else drawn
    details = filter(None, (e.model_options, "from published weights" if e.weights == "pretrained" else ""))
    yield "model", ", ".join((e.model, *details))
    if model.description.takes_images:
        augmented = "" if e.backbone else f", augmentation {e.augment}"  # features are not
        yield "images", form(model.description.input_shape) + augmented
    yield "seed", str(e.seed)


def rounds(count: int) -> str:
    return f"{count} round{'s' * (count > 1)}"


def accuracy(model: RunModel, al_round: ALRound) -> str:
    last = al_round.accuracy[-1]
    if math.isnan(last):
        return "Its accuracy is not known: there were no test images."
    mean, balanced = al_round.measure("accuracy"), al_round.measure("balanced_accuracy")
    where = "all sites' test images together" if model.plan else f"{model.tests:,} test samples"
    also = "" if math.isnan(balanced) else f" (balanced over classes {balanced:.1%})"
    return (
        f"**{last:.1%}** of {where} are classified rightly. The mean of the last FL rounds, by which runs "
        f"are compared, is {mean:.1%}{also}."
    )


def by_class(model: RunModel, run: StoredRun, al_round: ALRound) -> Rows:
    known = run.queried.size > 0  # sites keep their labels
    counts = run.labelled(model.al_round).sum(0).tolist() if known else []
    for k, name in enumerate(model.description.classes):
        share = al_round.class_accuracy[k]
        yield (
            name,
            f"{counts[k]:,}" if known else "known to the sites",
            "–" if math.isnan(share) else f"{share:.1%}",
        )


def privacy(plan: FieldPlan | None, al_rounds: int) -> str:
    """Say what covers the data of a site, as far as the coordinator knows."""
    if plan is None:
        return "Clients were simulated on one machine, without noise."
    cover = Cover(plan.rules.clip, plan.rules.noise)
    if not cover.clip:
        return "Updates were sent as they were: there is no differential privacy."
    if not cover.noise:
        return f"Updates were clipped to {cover.clip:g}, without noise: there is no differential privacy."
    updates = al_rounds * plan.experiment.fl_rounds
    spent = epsilon(updates * rho_of(cover))
    return (
        f"Sites clipped their updates to {cover.clip:g} and added noise of {cover.noise:g} times that, by "
        f"the plan as it is now. One update in each of {updates} FL rounds costs a site "
        f"**ε = {spent:.3g}** at δ = {DELTA:g}, for all of its data at once. A site's own log says what it "
        "has spent."
    )


def hashes(model: RunModel, file: str, sha256: str) -> Rows:
    e = model.experiment
    yield file, f"`{sha256}`"
    yield "trained weights", f"`{digest(model.weights)}`"
    if model.data:
        yield "dataset: its labels and some samples", f"`{model.data}`"
    if e.dataset_sha256:
        yield "file of the dataset", f"`{e.dataset_sha256}…`"
    if e.backbone:
        yield f"weights of the backbone {Path(e.backbone).name}", f"`{e.backbone_sha256}…`"


def comparison(model: RunModel, differences: Differences) -> str:
    compared = "images that were drawn at random" if model.plan else "test samples"
    text = (
        f"Compared on {len(model.samples)} {compared}, probabilities differ by {differences.file:.1g} at "
        f"most between the file and the network, and by {differences.training:.1g} between the network and "
        "training."
    )
    if differences.resizing:
        text += (
            " Where the file resizes images, and not `fedactive predict`, pixels are rounded in another "
            f"way, which changed a probability by up to {differences.resizing:.1g}."
        )
    return text


def facts(run: StoredRun) -> Rows:
    yield "run", run.name
    for name in ("started", "finished", "software", "hardware"):
        yield name, run.facts.get(name) or "not yet"


def digest(weights: Weights) -> str:
    content = hashlib.sha256()
    for name, value in sorted(weights.items()):
        content.update(repr((name, value.dtype, tuple(value.shape))).encode())
        content.update(value.cpu().numpy().tobytes())
    return content.hexdigest()


def table(head: tuple[str, ...], rows: Rows) -> str:
    """Write a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)

"""The global model of a run folder, made whole: with the backbone and all that was done to its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedactive.backbones.backbone import Backbone
from fedactive.backbones.embedding import prepare
from fedactive.backbones.find import find_backbone
from fedactive.data.dataset import Dataset
from fedactive.data.own_features import FEATURES, read_features, scaled, standardisation, standardise
from fedactive.data.own_file import find_file
from fedactive.data.preprocess import Normalise
from fedactive.errors import RunError
from fedactive.experiment import Experiment
from fedactive.export.description import Description
from fedactive.export.network import normalisation, whole_network
from fedactive.federated.inference import infer
from fedactive.federated.weights import Weights
from fedactive.files import read_json
from fedactive.laboratory.inputs import embed_dataset, load_inputs, read_dataset, require_images
from fedactive.models import ModelSpec
from fedactive.models.classifier import Classifier
from fedactive.progress import Callback
from fedactive.record.run_folder import earlier_starts, read_checkpoint
from fedactive.record.tables import reading
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.moments import from_text

CHECKED = 64  # test samples on which a file must agree with the network
AT_A_TIME = 16  # drawn images that a backbone embeds
CPU = torch.device("cpu")


@dataclass(frozen=True)
class RunModel:
    """The model of a run after its last completed AL round."""

    folder: Path
    experiment: Experiment
    al_round: int
    description: Description
    network: nn.Sequential
    weights: Weights  # as they were trained
    samples: Tensor  # test samples as they come; drawn ones where the test images are at sites
    expected: Tensor  # what the model gave for them in training: probabilities
    backbone: Backbone | None = None
    plan: FieldPlan | None = None  # of a run between sites
    tests: int = 0  # test samples of the dataset; only sites know how many they have
    data: str = ""  # the fingerprint of the dataset; sites keep theirs


def read_run_model(folder: Path, progress: Callback, data_dir: Path | None = None) -> RunModel:
    """Read the model of a run; `data_dir` is where its dataset is now, if it was moved."""
    if not (folder / "experiment.toml").is_file():
        raise RunError(f"{folder} is not a run folder: it has no experiment.toml")
    weights, al_round = final_weights(folder)
    if (folder / "field.json").exists():
        return from_sites(folder, weights, al_round)
    elsewhere = {"data_dir": data_dir} if data_dir else {}
    with reading(folder, "experiment.toml") as file:
        text = file.read_text(encoding="utf-8")
    experiment = Experiment.from_toml(text, runs_dir=folder.parent, device="auto", **elsewhere)
    return from_laboratory(folder, experiment, weights, al_round, progress)


def final_weights(folder: Path) -> tuple[Weights, int]:
    """Return the global model after the last AL round, and the number of that round."""
    path = folder / "checkpoint.pt"
    if not path.is_file():
        raise RunError(f"{path} is missing: it holds the model, once the first AL round is complete")
    state = read_checkpoint(path)
    if state is None:
        raise RunError(f"{path} is damaged, and with it the model")
    # Nothing may be left to query, so look also at what has taken time.
    begun = state.has_queried(state.al_round) or any(r == state.al_round for r, _ in state.seconds)
    if state.server is None or begun:
        again = "the command that began the run goes on with it"
        raise RunError(f"{folder}: AL round {state.al_round} is not complete; {again}")
    if not all(bool(value.isfinite().all()) for value in state.server.weights.values()):
        raise RunError(f"{folder}: training diverged, and its model is no use; try a smaller --lr")
    return state.server.weights, state.al_round - 1


def from_laboratory(
    folder: Path, e: Experiment, weights: Weights, al_round: int, progress: Callback
) -> RunModel:
    raw = read_dataset(e, progress)
    require_same_data(folder, raw)
    shape = raw.input_shape
    backbone, features = None, 0
    if e.backbone:
        require_images(e, raw)
        backbone = find_backbone(e.backbone, e.backbone_options)
        train, test = (part.numpy() for part in embed_dataset(e, raw, progress))
        shape, features = (shape[0], e.image_size, e.image_size), train.shape[1]
        stages: dict[str, Any] = {"fit": shape[1:], "normalise": normalisation(*backbone.normalisation)}
        stages |= {"backbone": backbone.load(CPU), "standardise": standardisation(train)}
        samples, seen = raw.test_inputs, standardise(train, test)[1]
        inputs = Normalise((features,), (), (), CPU)
    elif len(shape) == 1:
        file = find_file(e.dataset, e.data_dir, e.dataset_sha256)
        train, test = (read_features(file, name) for name in FEATURES)
        stages = {"standardise": standardisation(train)}
        samples, seen = torch.from_numpy(test), raw.test_inputs
        inputs = Normalise(shape, (), (), CPU)
    else:
        made = load_inputs(e)
        shape = made.input_shape
        stages = {"fit": shape[1:], "normalise": normalisation(made.mean, made.std)}
        samples, seen = raw.test_inputs, made.test_inputs
        inputs = Normalise(shape, made.mean, made.std, CPU)
    description = Description(
        run=e.name,
        classes=raw.classes,
        input_shape=shape,
        margins=False,
        model=e.model,
        model_options=e.model_options,
        backbone=backbone.name if backbone else "",
        backbone_options=e.backbone_options,
        features=features,
    )
    classifier = load_classifier(folder, description, weights)
    some = torch.linspace(0, len(samples) - 1, min(CHECKED, len(samples))).long()
    return RunModel(
        folder=folder,
        experiment=e,
        al_round=al_round,
        description=description,
        network=whole_network(classifier, **stages),
        weights=weights,
        samples=samples[some],
        expected=infer(classifier, seen[some], inputs, "fp32")[0].softmax(1),
        backbone=backbone,
        tests=len(raw.test_labels),
        data=raw.fingerprint,
    )


def from_sites(folder: Path, weights: Weights, al_round: int) -> RunModel:
    """Read the model of a coordinator's run: what it knows of the images is in the plan."""
    plan = read_plan(folder)
    card, e = plan.images, plan.experiment
    side = e.image_size or card.size
    shape = (card.channels, side, side)
    samples = torch.randint(0, 256, (CHECKED, *shape), generator=torch.Generator().manual_seed(0))
    samples = samples.to(torch.uint8)
    backbone, features = None, 0
    if e.backbone:
        backbone = find_backbone(e.backbone, e.backbone_options)
        how = from_text(read_json(folder / "field.json", "standardisation", ""))
        stages: dict[str, Any] = {"fit": shape[1:], "normalise": normalisation(*backbone.normalisation)}
        stages |= {"backbone": backbone.load(CPU), "standardise": how}
        apply = prepare(backbone, side, CPU)
        seen = scaled(torch.cat([apply(part) for part in samples.split(AT_A_TIME)]), how)
        features = seen.shape[1]
        inputs = Normalise((features,), (), (), CPU)
    else:
        stages = {"fit": shape[1:], "normalise": normalisation(card.mean, card.std)}
        seen, inputs = samples, Normalise(shape, card.mean, card.std, CPU)
    description = Description(
        run=e.name,
        classes=card.classes,
        input_shape=shape,
        margins=True,
        window=card.window,
        model=e.model,
        model_options=e.model_options,
        backbone=backbone.name if backbone else "",
        backbone_options=e.backbone_options,
        features=features,
    )
    classifier = load_classifier(folder, description, weights)
    return RunModel(
        folder=folder,
        experiment=e,
        al_round=al_round,
        description=description,
        network=whole_network(classifier, **stages),
        weights=weights,
        samples=samples,
        expected=infer(classifier, seen, inputs, "fp32")[0].softmax(1),
        backbone=backbone,
        plan=plan,
    )


def read_plan(folder: Path) -> FieldPlan:
    """Read the plan of a run, which the coordinator keeps in a folder beside its runs."""
    file = folder.resolve().parent.parent / "plans" / f"{folder.resolve().name}.toml"
    if not file.is_file():
        raise RunError(f"{file} is missing: the plan of a run between sites says what its images are")
    sites = read_json(folder / "sites.json", "sites", [])
    return FieldPlan.from_toml(
        file.read_text(encoding="utf-8"),
        backbones=file.parent.parent / "backbones",
        clients=max(1, len(sites)),
        runs_dir=folder.parent,
    )


def load_classifier(folder: Path, description: Description, weights: Weights) -> Classifier:
    d = description
    model = ModelSpec(d.model, d.seen_by_model, len(d.classes), d.model_options).build()
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise RunError(
            f"{folder}: its experiment.toml and its checkpoint.pt are of different models"
        ) from None
    return model


def require_same_data(folder: Path, data: Dataset) -> None:
    known = [start["data"] for start in earlier_starts(folder) if start.get("data")]
    if known and known[-1] != data.fingerprint:
        raise RunError(
            f"{data.name} is not the dataset that {folder} was trained on; name its folder with --data-dir"
        )

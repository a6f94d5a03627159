"""What clients see of a dataset: features by a backbone, resized images, or images as published weights want them."""

import shutil
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from fedactive import Silent
from fedactive.client import before_training, query_together
from fedactive.data.loader import load
from fedactive.engines import EngineShelf
from fedactive.errors import ConfigurationError, UserError
from fedactive.federated.local_sgd import LocalJob
from fedactive.laboratory.inputs import load_inputs
from fedactive.laboratory.run import run
from fedactive.laboratory.split import split
from fedactive.pools import make_pools
from fedactive.progress import Callback
from fedactive.query import make_strategy
from fedactive.randomness import Randomness
from fedactive.sweep.grid import expand, require_data
from support.commands import cli
from support.networks import write_onnx
from support.photographs import write_photographs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def photographs(tmp_path):
    return write_photographs(tmp_path / "photographs.npz")


@pytest.fixture
def frozen(small, photographs):
    def make(**changes):
        values = {"dataset": photographs, "backbone": "efficientnet_lite0", "image_size": 64, "rounds": 2}
        return small(**values | {"model": "linear", "strategy": "typiclust", "budget": 10} | changes)

    return make


def test_clients_learn_from_features_of_photographs(frozen):
    result = run(frozen(fl_rounds=20), Silent())
    assert result.accuracy.iloc[-1] > 0.9  # 16 labels; from scratch it would be a guess


def test_a_file_written_by_embed_gives_the_same_run(frozen, photographs, tmp_path):
    words = [
        "--dataset",
        photographs,
        "--backbone",
        "efficientnet_lite0",
        "--image-size",
        64,
        "--device",
        "cpu",
    ]
    done = cli("embed", *words, "-o", tmp_path / "features.npz")
    assert done.stdout == (
        f"{tmp_path / 'features.npz'}: 80 training and 20 test samples of 1280 features, 2 classes\n"
    ), done.stderr
    direct = run(frozen(), Silent())
    through = run(
        frozen(dataset=tmp_path / "features.npz", backbone="", image_size=0, model="linear"), Silent()
    )
    assert direct.metrics.drop(columns="seconds", errors="ignore").equals(
        through.metrics.drop(columns="seconds", errors="ignore")
    )
    assert direct.selections.equals(through.selections)


def test_a_run_is_continued_though_its_embeddings_differ_by_rounding(frozen, cache):
    run(frozen(rounds=1), Silent())
    for file in cache.rglob("*.npy"):
        np.save(file, np.load(file) * np.float32(1 + 1e-6))
    assert len(run(frozen(rounds=2), Silent()).accuracy) == 2


def test_other_images_under_the_same_name_are_another_dataset(frozen, photographs):
    before = load_inputs(frozen()).fingerprint
    assert before == load(str(photographs), photographs.parent).fingerprint
    write_photographs(photographs, 48)
    assert load_inputs(frozen()).fingerprint != before


def test_progress_is_told_when_embedding_ends_even_by_an_error(frozen, tmp_path):
    class Listener(Callback):
        said: ClassVar[list[object]] = []

        def on_embedding(self, done, total):
            self.said.append((done, total))

        def end_embedding(self):
            self.said.append("end")

    load_inputs(frozen(), Listener())
    assert Listener.said[-2:] == [(100, 100), "end"]
    Listener.said.clear()
    torch.save({}, tmp_path / "damaged.pt")
    with pytest.raises(UserError):
        load_inputs(frozen(backbone=tmp_path / "damaged.pt"), Listener())
    assert Listener.said == ["end"]


def test_a_grid_embeds_each_dataset_once_before_its_runs(frozen, cache, tmp_path):
    e = frozen(backbone=write_onnx(tmp_path / "a.onnx"), image_size=32)
    values = {name: getattr(e, name) for name in ("dataset", "backbone", "image_size", "clients", "device")}
    grid = expand(values | {"seed": [1, 2], "image_size": [32, 40], "runs_dir": tmp_path / "runs"})
    assert len(grid) == 4
    require_data(grid)
    assert len(list(cache.glob("embeddings/*"))) == 4  # training and test images, two sizes


def test_images_are_resized_without_a_backbone(small, digits):
    found = load_inputs(small(image_size=20))
    assert found.input_shape == (1, 20, 20)
    assert found.train_inputs.dtype == torch.uint8
    assert found.fingerprint == digits.fingerprint


def test_published_weights_are_fine_tuned_with_their_normalisation(small, photographs):
    e = small(dataset=photographs, model="efficientnet_lite0", weights="pretrained", image_size=48)
    data = load_inputs(e)
    assert (data.mean[0], data.std[0]) == (127 / 255, 128 / 255)
    reached = {}
    for weights in ("pretrained", "random"):
        with EngineShelf() as engines:
            engine = engines.get(replace(e, weights=weights), data)
            start = engine.spec.initial_weights(torch.Generator().manual_seed(0))
            samples = torch.arange(0, 80, 2)
            job = LocalJob(start, samples, data.train_labels[samples], 4, (0.003,) * 4, 0)
            reached[weights] = engine.evaluate(engine.train([job])[0].weights).accuracy
    assert reached["pretrained"] >= 0.9
    assert reached["random"] <= 0.6  # a guess


def test_a_run_fine_tunes_published_weights(small, photographs):
    e = small(dataset=photographs, model="efficientnet_lite0", weights="pretrained", strategy="random")
    assert len(run(replace(e, rounds=1, fl_rounds=1), Silent()).accuracy) == 1


def test_round_1_sees_what_published_weights_know(small, photographs):
    """And nothing of their head, which is drawn."""
    e = small(dataset=photographs, model="efficientnet_lite0", weights="pretrained", image_size=48)
    e = replace(e, clients=2, first="typiclust", strategy="margin", selector="global", budget="3/client")
    data = load_inputs(e)
    clients = split(e, data.train_labels, len(data.classes)).clients(e)
    typiclust = make_strategy("typiclust", "global")
    with EngineShelf() as engines:
        engine = engines.get(e, data)
        found = query_together(clients, engine, 1, None).queries
        start = engine.spec.initial_weights(torch.Generator().manual_seed(3))
        pools = make_pools(clients, engine, {"global": [start] * 2}, typiclust, 1)
        assert not engine.infer(before_training(engine), data.train_inputs[:5])[0].any()
    for client, pool, query in zip(clients, pools, found, strict=True):
        wanted = typiclust.select(pool, 3, Randomness(e.seed).torch("strategy", 1, client.number))
        assert query.samples.tolist() == client.unlabelled[wanted.indices].tolist()


def test_features_have_no_size_and_no_backbone(frozen, photographs, tmp_path):
    words = [
        "--dataset",
        photographs,
        "--backbone",
        "efficientnet_lite0",
        "--image-size",
        32,
        "--device",
        "cpu",
    ]
    assert cli("embed", *words, "-o", tmp_path / "features.npz").returncode == 0
    file = shutil.move(tmp_path / "features.npz", tmp_path / "f.npz")
    for changes, field in (({}, "backbone"), ({"backbone": "", "model": "linear"}, "image_size")):
        with pytest.raises(
            ConfigurationError, match=f"^{field}: .* allowed is none with f, which holds features"
        ):
            load_inputs(frozen(dataset=file, **changes))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-o", "a.npz"], "fedactive: backbone: '' was given, allowed is a name (see `fedactive backbones`)"),
        (["--backbone", "efficientnet_lite0", "-o", "a.txt"], "allowed is the path of an .npz file"),
        (["--backbone", "efficientnet_lite0"], "Missing option '--output'"),
    ],
)
def test_embed_says_what_it_needs(words, sentence):
    done = cli("embed", "--dataset", "digits", *words)
    assert done.returncode == 2
    assert sentence in done.stderr

"""The model card: true, complete, and its program runs."""

import hashlib
import re

import numpy as np
import pytest

import fedactive
from fedactive import Silent
from fedactive.data.loader import load
from fedactive.export.write import write_model
from fedactive.sites.privacy import Cover, epsilon, rho_of


def card_of(file):
    return file.with_name(f"{file.name}.md").read_text(encoding="utf-8")


def rows_of(card):
    """The tables of a card, as cells by what begins a row."""
    lines = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in card.splitlines() if line.startswith("|")]
    return {cells[0]: cells[1:] for cells in lines}


def test_it_says_what_was_measured(trained, exported):
    file = exported("digits", ".safetensors")
    card, result = card_of(file), fedactive.Result(trained("digits"))
    rows = rows_of(card)
    assert rows["dataset"] == ["digits"]
    assert rows["clients"] == ["2"]
    assert rows["active learning"] == ["2 rounds with random"]
    assert rows["labels used"] == [f"{len(result.selections)} of 1,438 samples (9.74%)"]
    last = result.metrics[result.metrics["model"] == "global"].iloc[-1]
    assert f"**{last['accuracy']:.1%}** of 359 test samples are classified rightly" in card
    assert f"is {result.accuracy.iloc[-1]:.1%} (balanced" in card
    labels = result.selections["label"].value_counts()
    for c, share in enumerate(last["class_accuracy"]):
        assert rows[str(c)] == [str(labels[c]), f"{share:.1%}"]


def test_it_does_not_say_where_files_lie(exported, photographs):
    card = card_of(exported("torchscript", ".pt"))
    assert rows_of(card)["dataset"] == ["photographs.npz"]
    assert "weights of the backbone network.pt" in rows_of(card)
    assert str(photographs.parent) not in card


def test_hashes_are_those_of_the_files(exported, photographs):
    file = exported("efficientnet_lite0", ".onnx")
    rows = rows_of(card_of(file))
    assert rows[file.name] == [f"`{hashlib.sha256(file.read_bytes()).hexdigest()}`"]
    assert rows["file of the dataset"] == [f"`{hashlib.sha256(photographs.read_bytes()).hexdigest()[:12]}…`"]
    assert rows["weights of the backbone efficientnet_lite0"] == ["`579344248a93…`"]
    same = rows_of(card_of(exported("efficientnet_lite0", ".pt")))
    assert same["trained weights"] == rows["trained weights"] != rows[file.name]


@pytest.mark.parametrize("kind", ["features", "efficientnet_lite0"])
@pytest.mark.parametrize("ending", [".onnx", ".pt", ".safetensors"])
@pytest.mark.filterwarnings("ignore:.*torch.jit.load:DeprecationWarning")
def test_its_program_runs(exported, photographs, monkeypatch, kind, ending):
    file = exported(kind, ending)
    monkeypatch.chdir(file.parent)
    (program,) = re.findall(r"```python\n(.*?)```", card_of(file), re.DOTALL)
    channels_last = ending == ".safetensors"
    given = load(str(photographs), photographs.parent).test_inputs
    names = {"images": given.permute(0, 2, 3, 1).numpy() if channels_last else given.numpy()}
    names |= (
        {"features": np.load("features.npz")["test_features"].astype(np.float32)}
        if kind == "features"
        else {}
    )
    exec(program, names)
    found = names["table"].iloc[:, 2:].to_numpy() if channels_last else np.asarray(names["probabilities"])
    source = "features.npz" if kind == "features" else photographs
    expected = fedactive.load_model(file, device="cpu").predict(source)
    assert np.allclose(found, expected.iloc[:, 2:], atol=5e-3)  # pixels are rounded differently


def test_between_sites_it_tells_epsilon_and_no_secrets(between_sites, tmp_path):
    write_model(between_sites, tmp_path / "model.pt", Silent())
    card = card_of(tmp_path / "model.pt")
    spent = epsilon(6 * rho_of(Cover(1.0, 0.01)))  # 2 AL rounds of 3 FL rounds
    assert f"**ε = {spent:.3g}** at δ = 1e-05" in card
    rows = rows_of(card)
    assert rows["sites"] == ["2"]
    assert rows["0"][0] == "known to the sites"
    assert "all sites' test images together are classified rightly" in card
    assert "black margins" in card
    assert "north" not in card


def test_without_noise_there_is_no_epsilon(between_sites, tmp_path):
    plan = next((between_sites.parent.parent / "plans").iterdir())
    before = plan.read_text()
    try:
        for change, sentence in (
            ("noise = 0", "Updates were clipped to 1, without noise: there is no differential privacy."),
            ("noise = 0\nclip = 0", "Updates were sent as they were: there is no differential privacy."),
        ):
            plan.write_text(
                before.split("[field]")[0] + f"[field]\n{change}\n" + "clip = 1.0\n" * ("clip" not in change)
            )
            write_model(between_sites, tmp_path / "model.safetensors", Silent())
            assert sentence in card_of(tmp_path / "model.safetensors")
    finally:
        plan.write_text(before)

"""A checkpoint with a right checksum and wrong values is refused in one sentence, or the run goes on and ends."""

import io
import os
import random
import shutil

import pytest
import torch

from fedactive.errors import UserError
from fedactive.export.run_model import final_weights
from fedactive.laboratory.run import run
from fedactive.progress import Silent
from fedactive.record import run_folder
from support.forgery import forge, sealed

# Thousands take minutes: FORGERIES=2000 pytest tests/record/test_forgery.py
MANY = int(os.environ.get("FORGERIES", "25"))
RUNS = {
    "variates, local models": {"algorithm": "scaffold", "strategy": "logo"},
    "moments, committees": {"algorithm": "fedadam", "strategy": "bald"},
    "agreed numbers": {"strategy": "fairfal"},
}


class Stop(Silent):
    """Stop the run in the middle of its second AL round."""

    def on_evaluation(self, al_round, fl_round, evaluation):
        if (al_round, fl_round) == (2, 0):
            raise KeyboardInterrupt


@pytest.fixture(params=RUNS)
def stopped(request, small, monkeypatch):
    monkeypatch.setattr(run_folder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    e = small(rounds=2, fl_rounds=2, model_options="width=4", budget="4/client", **RUNS[request.param])
    with pytest.raises(KeyboardInterrupt):
        run(e, Stop())
    return e


def said(what, *arguments):
    """Return the sentence that a user gets; empty if there is none. All other errors fail."""
    try:
        what(*arguments)
    except UserError as error:
        return str(error)
    return ""


def test_a_forged_checkpoint_is_a_sentence_or_a_run(stopped):
    kept = shutil.copytree(stopped.folder, stopped.runs_dir.parent / "kept")
    refused = 0
    for seed in range(MANY):
        shutil.rmtree(stopped.folder)
        shutil.copytree(kept, stopped.folder)
        file = stopped.folder / "checkpoint.pt"
        file.write_bytes(forge(file.read_bytes(), random.Random(seed), changes=1 + seed % 3))
        sentences = [said(run, stopped, Silent()), said(final_weights, stopped.folder)]
        assert not any("\n" in sentence for sentence in sentences)
        refused += bool(sentences[0])
    assert refused > MANY // 2


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda p: p.update(fl_round=2), "it is in FL round 3"),
        (lambda p: p.update(al_round=0), "it is in AL round 0"),
        (lambda p: p.update(al_round=3), "an AL round ends without a measurement"),
        (lambda p: p.update(evaluations=p["evaluations"] * 2), "a model was measured twice"),
        (lambda p: p["queries"][0][1].update(client=3), "a query is of client 3"),
        (
            lambda p: p["queries"][0][1]["samples"].fill_(10**6),
            "client 0 has labels already, or not the samples",
        ),
        (lambda p: p["seconds"].update({(9, "training"): 1.0}), "its times are of other AL rounds"),
        (lambda p: p["server"]["weights"].popitem(), "it is of another model or algorithm"),
        (lambda p: p["server"]["state"].clear(), "it is of another model or algorithm"),
        (lambda p: (p["clients"].pop(), p["memories"].pop()), "it is of 2 clients"),
        (lambda p: p.update(agreed=[1.0, 2.0]), "clients agreed on 2 numbers"),
        (lambda p: p.update(server=None), "it has no model"),
    ],
)
@pytest.mark.parametrize("stopped", ["variates, local models"], indirect=True)
def test_what_is_wrong_is_named(stopped, spoil, why):
    file = stopped.folder / "checkpoint.pt"
    plain = torch.load(io.BytesIO(file.read_bytes().partition(b"\n")[2]), weights_only=True)
    spoil(plain)
    file.write_bytes(sealed(plain))
    with pytest.raises(UserError) as refused:
        run(stopped, Silent())
    assert str(refused.value).startswith(f"{file} is not a checkpoint of this run: {why}; move it away")

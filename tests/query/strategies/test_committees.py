"""BALD, TM-FAL and CHASe against their formulas, with all outputs in memory."""

import pytest
import torch

from fedactive.query import make_strategy
from fedactive.query.contract import make_pool


def stacked(pool, role):
    outputs = list(pool.each(role))
    return [
        torch.stack([getattr(o, name) for o in outputs]) for name in ("probabilities", "embeddings", "logits")
    ]


@pytest.mark.parametrize("samples", ["committee", "dropout"])
def test_bald_is_the_entropy_that_the_committee_has_and_its_members_have_not(samples):
    pool = make_pool(40, 3)
    p, _, _ = stacked(pool, samples)
    entropy = [-(one * one.log()).sum(-1) for one in (p, p.mean(0))]
    score = entropy[1] - entropy[0].mean(0)
    chosen = make_strategy("bald", "both", f"samples={samples}").select(pool, 6, torch.Generator())
    assert chosen.indices.tolist() == score.argsort(descending=True)[:6].tolist()
    torch.testing.assert_close(chosen.scores, score[chosen.indices], atol=1e-6, rtol=1e-4)


def test_tmfal_takes_the_most_restless_of_each_predicted_class_in_turn():
    pool = make_pool(40, 3)
    p, h, _ = stacked(pool, "committee")
    score = (h.std(0, correction=0).mean(1) / p.mean(0).max(1).values).tolist()
    predicted = pool.unlabelled("global").logits.argmax(1).tolist()
    ranked = {
        c: sorted((i for i in range(40) if predicted[i] == c), key=lambda i: -score[i]) for c in range(3)
    }
    turns = [[own[turn] for own in ranked.values() if turn < len(own)] for turn in range(3)]
    chosen = make_strategy("tmfal", "both").select(pool, 9, torch.Generator())
    assert chosen.indices.tolist() == [i for turn in turns for i in sorted(turn, key=lambda i: -score[i])]
    assert chosen.scores.tolist() == pytest.approx([score[i] for i in chosen.indices.tolist()], rel=1e-4)


def test_chase_counts_changes_of_the_predicted_class():
    pool = make_pool(60, 4)
    _, _, logits = stacked(pool, "epochs")
    predicted = logits.argmax(2)
    changes = [(predicted[1:, i] != predicted[:-1, i]).sum().item() for i in range(60)]
    chosen = make_strategy("chase", "local").select(pool, 20, torch.Generator().manual_seed(1))
    assert chosen.scores.tolist() == sorted(changes, reverse=True)[:20]
    assert chosen.scores.tolist() == [changes[i] for i in chosen.indices.tolist()]


def test_one_model_at_a_time_is_held(monkeypatch):
    """The strategies go through a committee once and keep no member of it."""
    for name, role in (("bald", "committee"), ("tmfal", "committee"), ("chase", "epochs")):
        pool = make_pool(30, 3)
        each, alive = pool.each, []

        def one_by_one(role, each=each, alive=alive):
            import weakref

            for outputs in each(role):
                assert sum(ref() is not None for ref in alive) <= 1
                copy = type(outputs)(outputs.logits.clone(), outputs.embeddings.clone())
                alive.append(weakref.ref(copy))
                yield copy
                del copy

        pool.each = one_by_one
        make_strategy(name, "both").select(pool, 5, torch.Generator())
        assert len(alive) == 3, role

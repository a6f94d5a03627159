"""What a client remembers of an AL round: which models, how many, and for how long."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

import fedactive.record.run_folder
from fedactive.errors import ConfigurationError
from fedactive.federated.local_sgd import LocalResult
from fedactive.laboratory.run import run
from fedactive.memory import MOST_CHECKPOINTS, Memory, remembered, to_device
from fedactive.progress import Silent
from fedactive.record.run_folder import read_checkpoint
from fedactive.registry import STRATEGIES

ALL = frozenset({"local_last", "epochs", "committee"})


def weights(value):
    return {"w": torch.tensor(float(value))}


def taught(t, asked=ALL, fl_rounds=100):
    """What is learnt in FL round t: the global model is -t, the client's own t, after its first epoch t - ½."""
    own = weights(t)
    return remembered(asked, t, fl_rounds, weights(-t), LocalResult(own, 1, (weights(t - 0.5), own)))


def after(*fl_rounds, **settings):
    memory = Memory()
    for t in fl_rounds:
        memory = memory.add(taught(t, **settings))
    return memory


def numbers(memory, role):
    return [w["w"].item() for w in memory.models(role)]


def test_the_last_update_counts_and_of_every_second_round_a_checkpoint():
    memory = after(0, 1, 2, 3, 4, 5, 6, fl_rounds=8)
    assert numbers(memory, "local_last") == [6]
    assert numbers(memory, "epochs") == [5.5, 6]
    assert numbers(memory, "committee") == [-1, 1, -3, 3, -5, 5]
    assert numbers(after(*range(7), fl_rounds=7), "committee") == [0, 0, -2, 2, -4, 4, -6, 6]


def test_who_misses_rounds_remembers_what_it_made_before():
    memory = after(1, 3, 6, fl_rounds=10)
    assert numbers(memory, "local_last") == [6]
    assert numbers(memory, "committee") == [-1, 1, -3, 3]


def test_no_more_than_twenty_checkpoints_of_each_model_are_kept():
    memory = after(*range(100))
    kept = numbers(memory, "committee")
    assert len(kept) == 2 * MOST_CHECKPOINTS
    assert kept[1::2] == list(range(61, 100, 2))
    assert kept[::2] == [-t for t in range(61, 100, 2)]


def test_a_round_that_is_repeated_takes_its_own_place():
    memory = after(*range(50)).add(taught(49)).add(taught(49))
    assert numbers(memory, "committee") == numbers(after(*range(50)), "committee")
    assert numbers(memory.add(taught(45)), "committee")[-4:] == [-43, 43, -45, 45]


@pytest.mark.parametrize("role", sorted(ALL))
def test_only_what_is_asked_for_is_remembered(role):
    memory = after(1, asked=frozenset({role}), fl_rounds=4)
    assert {name for name in ALL if memory.models(name)} == {role}
    assert not Memory().models(role)


def test_what_clients_share_stays_shared():
    sent, own = weights(0), [weights(k) for k in range(3)]
    memories = [remembered(ALL, 1, 2, sent, LocalResult(w, 1)) for w in own]
    moved = to_device(memories, torch.device("meta"))
    assert len({id(memory.committee[1][0]) for memory in moved}) == 1
    assert all(memory.last is memory.committee[1][1] for memory in moved)
    assert {memory.last["w"].device.type for memory in moved} == {"meta"}


# --- in runs


class StopAt(Silent):
    def __init__(self, al_round, fl_round):
        self.point = (al_round, fl_round)

    def on_evaluation(self, al_round, fl_round, accuracy):
        if (al_round, fl_round) == self.point:
            raise KeyboardInterrupt


@pytest.mark.parametrize("strategy", ["ksas", "tmfal", "chase", "fairfal"])
def test_a_run_that_is_killed_at_any_moment_ends_with_the_same_numbers(
    small, tmp_path, monkeypatch, strategy
):
    monkeypatch.setattr(fedactive.record.run_folder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    settings = {"strategy": strategy, "participation": 0.7, "local_epochs": 3}
    whole = run(small(**settings, runs_dir=tmp_path / "whole"))
    broken = small(**settings, runs_dir=tmp_path / "broken")
    for point in ((1, 0), (1, 2), (2, 1), (2, 2), (3, 0)):
        with pytest.raises(KeyboardInterrupt):
            run(broken, StopAt(*point))
    resumed = run(broken)
    for name in ("metrics", "selections"):
        pd.testing.assert_frame_equal(getattr(whole, name), getattr(resumed, name), check_exact=True)


def test_a_first_round_is_shared_only_with_its_memories(small):
    """A run that finds the first round of another strategy must not find it without what it asks for."""
    alone = run(small(strategy="ksas", rounds=2, runs_dir=small().runs_dir / "alone"))
    for other in ("random", "tmfal"):
        run(small(strategy=other, rounds=1))
    together = run(small(strategy="ksas", rounds=2))
    pd.testing.assert_frame_equal(alone.selections, together.selections, check_exact=True)


def test_a_checkpoint_holds_what_is_asked_for_and_nothing_after_a_query(small):
    result = run(small(strategy="tmfal", rounds=2))
    kept = read_checkpoint(result.folder / "checkpoint.pt").clients
    assert [sorted(k.memory.committee) for k in kept] == [[0, 2]] * 3
    assert all(k.memory.last == {} for k in kept)
    shared = {k.memory.committee[2][0]["head.weight"].data_ptr() for k in kept}
    assert len(shared) == 1  # the global model is there once


def test_each_client_queries_with_its_own_last_model(small, monkeypatch):
    """What KSAS is shown is what the clients sent in the FL round before, and the mean of it."""
    seen = []
    select = STRATEGIES["ksas"].select

    def look(self, pool, budget, rng):
        seen.append([pool.head(model)[0].clone() for model in ("global", "local_last")])
        return select(self, pool, budget, rng)

    monkeypatch.setattr(STRATEGIES["ksas"], "select", look)
    run(small(strategy="ksas", rounds=2))
    assert len(seen) == 3
    own = torch.stack([head for _, head in seen])
    torch.testing.assert_close(own.mean(0), seen[0][0])  # equal budgets, so equal weights
    assert not torch.equal(own[0], own[1])


def test_algorithms_without_local_training_are_refused(small):
    with pytest.raises(ConfigurationError, match="one that asks for no model of local training"):
        small(strategy="chase", algorithm="ridge", model="linear")


def test_dropout_is_refused_for_a_model_without(small):
    experiment = small(strategy="bald", strategy_options="samples=dropout")
    with pytest.raises(ConfigurationError, match="which has none"):
        run(experiment)
    assert run(replace(experiment, strategy_options="samples=committee", rounds=2)).accuracy.notna().all()

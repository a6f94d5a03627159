"""Gold questions: where they come, that no label follows from them, and what they say of a person."""

import pytest

from fedactive.sites.labels.database import SenselessError
from fedactive.sites.labels.gold import EVERY, Accuracy
from fedactive.sites.labels.rounds import Counts
from fedactive.sites.labels.store import LabelStore


@pytest.fixture
def store(tmp_path):
    """Ada has labelled images 0 to 4, of which 2 and 3 are gold; a round of 30 others is open."""
    store = LabelStore(tmp_path / "labels.sqlite")
    ada = person(store, "ada")
    store.rounds.open("run", 1, range(5), "logo", None)
    for sample in range(5):
        store.answers.record(ada, sample, "label", sample)
    store.rounds.close("run", 1)
    store.gold.add(ada, 2)
    store.gold.add(ada, 3)
    store.rounds.open("run", 2, range(100, 130), "logo", None)
    yield store
    store.close()


def person(store, name):
    store.annotators.add(name)
    return store.annotators.find(name)


def label_next(store, who, label=7):
    sample = store.queues.next(who, "round", 8)[0].sample
    store.answers.record(who, sample, "label", label)
    return sample


def test_one_image_of_ten_is_a_gold_question_while_there_are_some(store):
    bob = person(store, "bob")
    samples = [label_next(store, bob) for _ in range(32)]
    assert [k for k, sample in enumerate(samples) if sample < 100] == [EVERY - 1, 2 * EVERY - 1]
    assert {samples[9], samples[19]} == {2, 3}
    assert store.queues.next(bob, "round", 8) == []
    assert store.counts("run", 2) == Counts(30, 30, 0, 0, 0)
    assert store.labels()[2] == 2  # whatever bob said
    assert store.labels_at_close("run", 1) == {k: k for k in range(5)}


def test_what_is_ahead_stays_ahead(store):
    bob = person(store, "bob")
    for _ in range(4):
        label_next(store, bob)
    before = store.queues.next(bob, "round", 8)
    assert before[5].sample < 100
    label_next(store, bob)
    assert store.queues.next(bob, "round", 7) == before[1:]
    assert {request.round_id for request in before} == {
        store.rounds.find("run", 2).id
    }  # it looks like others


def test_who_set_it_or_answered_already_is_not_asked(store):
    assert all(label_next(store, store.annotators.find("ada")) >= 100 for _ in range(15))


def test_accuracy(store):
    bob, eve = person(store, "bob"), person(store, "eve")
    for who, answers in ((bob, {2: 2, 3: 1}), (eve, {2: 2, 3: None})):
        for sample, label in answers.items():
            store.answers.record(who, sample, "skip" if label is None else "label", label)
    assert store.gold.accuracies() == {"bob": Accuracy(1, 1, 0), "eve": Accuracy(1, 0, 1)}
    assert store.gold.accuracies()["bob"].share == 0.5
    store.answers.record(bob, 3, "label", 3)  # changes the answer
    assert store.gold.accuracies()["bob"] == Accuracy(2, 0, 0)
    assert store.answers.undo(bob).sample == 3
    assert store.gold.accuracies()["bob"] == Accuracy(1, 1, 0)
    assert store.labels_at_close("run", 1) == {k: k for k in range(5)}


def test_only_a_label_can_be_gold_and_an_ordinary_answer_is_no_check(store):
    ada, bob = store.annotators.find("ada"), person(store, "bob")
    store.answers.record(bob, 100, "label", 1)
    store.answers.record(bob, 101, "skip")
    store.gold.add(ada, 100)
    for sample in (101, 102):
        with pytest.raises(SenselessError, match=f"image {sample} has no label that could be certain"):
            store.gold.add(ada, sample)
    store.answers.record(bob, 100, "label", 5)  # his own label, which he corrects
    assert store.labels()[100] == 5
    assert store.gold.accuracies() == {}
    store.gold.remove(100)
    assert store.gold.labels() == {2: 2, 3: 3}

"""The label store: real files, several threads and processes."""

import multiprocessing
import sqlite3
import stat
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedactive.errors import UserError
from fedactive.sites.labels import queues
from fedactive.sites.labels.agreement import cohen_kappa, verdict
from fedactive.sites.labels.answers import Event, NotTheirsError, SenselessError
from fedactive.sites.labels.database import StoreError
from fedactive.sites.labels.rounds import Counts
from fedactive.sites.labels.store import LabelStore
from support.answering import answer_fifty


@pytest.fixture
def store(tmp_path):
    store = LabelStore(tmp_path / "labels.sqlite")
    yield store
    store.close()


def person(store, name, reviewer=False):
    store.annotators.add(name, reviewer=reviewer)
    return store.annotators.find(name)


def queue_of(store, annotator, count=100, queue="round"):
    return [request.sample for request in store.queues.next(annotator, queue, count)]


# ------------------------------------------------------------------------------------------- rounds


def test_a_round_is_opened_once(store):
    deadline = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
    store.rounds.open("run", 1, [5, 3, 5, 9], "logo", deadline)
    store.rounds.open("run", 1, [1, 2], "random", None)
    assert store.counts("run", 1) == Counts(3, 0, 0, 0, 3)
    found = store.rounds.find("run", 1)
    assert (found.strategy, found.deadline, found.closed) == ("logo", deadline, None)
    assert queue_of(store, person(store, "ada")) == [5, 3, 9]


def test_counts_add_up(store):
    store.rounds.open("run", 1, range(5), "logo", None)
    ada = person(store, "ada")
    store.answers.record(ada, 0, "label", 7)
    store.answers.record(ada, 1, "label", 2)
    store.answers.record(ada, 2, "skip")
    store.answers.record(ada, 3, "flag")
    assert store.counts("run", 1) == Counts(5, 2, 1, 1, 1)
    assert store.labels() == {0: 7, 1: 2}
    assert store.counts("another", 1) == Counts(0, 0, 0, 0, 0)


def test_a_closed_round_leaves_late_work(store):
    store.rounds.open("run", 1, range(3), "logo", None)
    ada = person(store, "ada")
    store.answers.record(ada, 0, "label", 1)
    store.rounds.close("run", 1)
    closed = store.rounds.find("run", 1).closed
    store.rounds.close("run", 1)
    assert store.rounds.find("run", 1).closed == closed
    assert queue_of(store, ada) == []
    assert queue_of(store, ada, queue="late") == [1, 2]
    store.answers.record(ada, 1, "label", 4)
    assert store.labels() == {0: 1, 1: 4}
    with pytest.raises(StoreError, match="round 2 of run run was never opened here"):
        store.rounds.close("run", 2)


def test_labels_at_close_stay_whatever_comes_later(store):
    store.rounds.open("run", 1, range(4), "logo", None)
    ada = person(store, "ada")
    store.answers.record(ada, 0, "label", 1)
    store.answers.record(ada, 1, "label", 2)
    store.rounds.close("run", 1)
    store.answers.undo(ada)
    store.answers.record(ada, 0, "label", 9)
    store.answers.record(ada, 2, "label", 3)
    store.rounds.open("run", 2, [7], "logo", None)
    store.answers.record(ada, 7, "label", 5)
    assert store.labels_at_close("run", 1) == {0: 1, 1: 2}
    assert store.labels() == {0: 9, 2: 3, 7: 5}
    with pytest.raises(StoreError, match="round 2 of run run is not closed"):
        store.labels_at_close("run", 2)
    store.rounds.close("run", 2)
    assert store.labels_at_close("run", 2) == store.labels()


def test_an_image_asked_for_again_keeps_its_label(store):
    store.rounds.open("one", 1, [4], "logo", None)
    store.answers.record(person(store, "ada"), 4, "label", 1)
    store.rounds.open("two", 1, [4, 5], "logo", None)
    assert store.counts("two", 1) == Counts(2, 1, 0, 0, 1)


def test_young_open_rounds_come_first_and_an_image_once(store):
    store.rounds.open("run", 1, [1, 2, 3], "logo", None)
    store.rounds.open("run", 2, [9, 2], "logo", None)
    assert queue_of(store, person(store, "ada")) == [9, 2, 1, 3]
    assert store.rounds.current().al_round == 2
    store.rounds.close("run", 2)
    assert store.rounds.current().al_round == 1


# ------------------------------------------------------------------------------------------ answers


def test_undo_has_no_limit_and_goes_back_to_earlier_answers(store):
    store.rounds.open("run", 1, range(3), "logo", None)
    ada = person(store, "ada")
    store.answers.record(ada, 0, "label", 1)
    store.answers.record(ada, 1, "skip")
    store.answers.record(ada, 0, "label", 2)
    assert store.labels() == {0: 2}
    assert store.answers.undo(ada).sample == 0
    assert store.labels() == {0: 1}
    assert store.answers.undo(ada).sample == 1
    assert store.answers.undo(ada).label == 1
    assert store.answers.undo(ada) is None
    assert store.labels() == {}
    assert store.counts("run", 1).pending == 3
    assert queue_of(store, ada) == [0, 1, 2]


def test_undo_touches_only_ones_own_answers(store):
    store.rounds.open("run", 1, range(3), "logo", None)
    ada, bob = person(store, "ada"), person(store, "bob")
    store.answers.record(ada, 0, "label", 1)
    store.answers.record(bob, 1, "label", 1)
    assert store.answers.undo(ada).sample == 0
    assert store.labels() == {1: 1}


def test_what_is_sent_twice_counts_once(store):
    store.rounds.open("run", 1, range(3), "logo", None)
    ada = person(store, "ada")
    for _ in range(2):
        store.answers.record(ada, 0, "label", 1, key="a")
        store.answers.record(ada, 1, "label", 1, key="b")
    assert len(store.answers.history(ada, 10)) == 2
    first, again = store.answers.undo(ada, key="c"), store.answers.undo(ada, key="c")
    assert first == again
    assert store.labels() == {0: 1}


def test_only_what_was_asked_for_is_answered(store):
    store.rounds.open("run", 1, [1], "logo", None)
    with pytest.raises(StoreError, match="nobody asked for image 2"):
        store.answers.record(person(store, "ada"), 2, "label", 0)


def test_the_log_has_everything_and_only_grows(store):
    store.rounds.open("run", 3, [1], "logo", None)
    ada = person(store, "ada")
    store.answers.record_guess_seen(ada, 1)
    store.answers.record(ada, 1, "label", 4, seconds=1.5)
    store.answers.undo(ada)
    rows = [dict(row) for row in store.database.rows("SELECT * FROM events ORDER BY id")]
    assert abs(rows[0].pop("time") - time.time()) < 60
    assert rows[0] == {
        "id": 1, "annotator": ada.id, "sample": 1, "action": "label", "label": 4, "seconds": 1.5, "final": 0,
        "saw_guess": 1, "undoes": None, "run": "run", "al_round": 3, "strategy": "logo", "key": None,
        "import": None, "comment": None, "gold": 0,
    }  # fmt: skip
    assert (rows[1]["action"], rows[1]["undoes"]) == ("undo", 1)
    for statement in ("UPDATE events SET label = 1", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            store.database.connection.execute(statement)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 3),
            st.sampled_from(["label", "label", "label", "skip", "flag", "undo", "decide"]),
            st.integers(0, 2),
        ),
        max_size=25,
    )
)
def test_what_follows_from_the_log_is_what_the_log_says(tmp_path_factory, steps):
    store = LabelStore(tmp_path_factory.mktemp("store") / "labels.sqlite")
    people = [person(store, name, reviewer=True) for name in "abc"]
    store.rounds.open("run", 1, range(4), "logo", None, overlap=2)
    for who, sample, action, label in steps:
        if action == "undo":
            store.answers.undo(people[who])
        elif action == "decide":
            with suppress(SenselessError):
                store.answers.record(people[who], sample, "label", label, final=True)
        else:
            with suppress(NotTheirsError):
                store.answers.record(people[who], sample, action, label if action == "label" else None)
    store.rounds.close("run", 1)
    assert store.labels_at_close("run", 1) == store.labels()
    for k, one in enumerate(people):
        answered = store.database.rows(
            "SELECT sample FROM assignments WHERE annotator = ? AND action <> ''", one.id
        )
        assert {s for (s,) in answered} == {
            e.sample for e in store.answers.history(people[k], 99) if not e.final
        }
    counts = store.counts("run", 1)
    assert counts.labelled + counts.skipped + counts.flagged + counts.pending == counts.requested == 4
    store.close()


# ---------------------------------------------------------------------------------- several people


def test_people_get_different_images(store):
    store.rounds.open("run", 1, range(10), "logo", None)
    ada, bob = person(store, "ada"), person(store, "bob")
    assert queue_of(store, ada, 4) == [0, 1, 2, 3]
    assert queue_of(store, bob, 4) == [4, 5, 6, 7]
    store.answers.record(ada, 0, "label", 1)
    assert queue_of(store, ada, 4) == [1, 2, 3, 8]
    assert queue_of(store, ada, 4) == [1, 2, 3, 8]


def test_who_goes_away_loses_their_queue(store, monkeypatch):
    store.rounds.open("run", 1, range(3), "logo", None)
    ada, bob = person(store, "ada"), person(store, "bob")
    now = time.time()
    monkeypatch.setattr(queues.time, "time", lambda: now)
    assert queue_of(store, ada) == [0, 1, 2]
    monkeypatch.setattr(queues.time, "time", lambda: now + queues.SECONDS_HELD - 1)
    assert queue_of(store, bob) == []
    monkeypatch.setattr(queues.time, "time", lambda: now + queues.SECONDS_HELD + 1)
    assert queue_of(store, bob) == [0, 1, 2]


def test_a_clock_set_back_holds_nothing_forever(store, monkeypatch):
    store.rounds.open("run", 1, range(3), "logo", None)
    ada, bob = person(store, "ada"), person(store, "bob")
    assert queue_of(store, ada) == [0, 1, 2]
    a_day_ago = time.time() - 86_400
    monkeypatch.setattr(queues.time, "time", lambda: a_day_ago)
    assert queue_of(store, bob) == [0, 1, 2]


def test_overlap_needs_several_answers(store):
    store.rounds.open("run", 1, [0, 1], "logo", None, overlap=2)
    ada, bob, eve = (person(store, name) for name in ("ada", "bob", "eve"))
    assert queue_of(store, ada) == queue_of(store, bob) == [0, 1]
    assert queue_of(store, eve) == []
    store.answers.record(ada, 0, "label", 3)
    assert store.counts("run", 1) == Counts(2, 0, 0, 0, 2)
    assert store.labels() == {0: 3}  # what is agreed so far
    store.answers.record(bob, 0, "label", 3)
    assert store.counts("run", 1) == Counts(2, 1, 0, 0, 1)
    assert queue_of(store, ada) == [1]


def test_no_more_answers_are_wanted_than_there_are_people(store):
    store.rounds.open("run", 1, [0, 1], "logo", None, overlap=3)
    ada, bob = person(store, "ada"), person(store, "bob")
    for sample in (0, 1):
        store.answers.record(ada, sample, "label", 3)
    assert store.counts("run", 1).pending == 2
    store.answers.record(bob, 0, "label", 3)
    store.answers.record(bob, 1, "label", 4)
    assert store.counts("run", 1) == Counts(2, 1, 0, 0, 1)
    assert [one.sample for one in store.queues.find_disputed()] == [1]
    eve = person(store, "eve", reviewer=True)  # a third one, whose answers are wanted from now on
    assert store.counts("run", 1).pending == 2
    assert queue_of(store, eve) == [0, 1]
    store.annotators.remove("eve")
    assert store.counts("run", 1) == Counts(2, 1, 0, 0, 1)
    store.answers.record(ada, 1, "label", 4)  # the two may talk, and agree
    assert store.counts("run", 1) == Counts(2, 2, 0, 0, 0)


def test_overlap_before_anybody_is_there(store):
    store.rounds.open("run", 1, [0], "logo", None, overlap=2)
    assert store.counts("run", 1) == Counts(1, 0, 0, 0, 1)
    ada = person(store, "ada")
    assert queue_of(store, ada) == [0]
    store.answers.record(ada, 0, "skip")
    assert store.counts("run", 1) == Counts(1, 0, 1, 0, 0)


def test_a_disagreement_waits_for_a_decision_that_can_be_undone(store):
    store.rounds.open("run", 1, [0], "logo", None, overlap=2)
    ada, bob, rita = person(store, "ada"), person(store, "bob"), person(store, "rita", reviewer=True)
    store.answers.record(ada, 0, "label", 3)
    store.answers.record(bob, 0, "label", 4)
    assert (store.labels(), store.counts("run", 1).pending) == ({}, 1)
    assert queue_of(store, rita, queue="disputed") == [0]
    store.answers.record(rita, 0, "label", 4, final=True)
    assert (store.labels(), store.counts("run", 1).labelled) == ({0: 4}, 1)
    assert queue_of(store, rita, queue="disputed") == []
    store.answers.undo(rita)
    assert queue_of(store, rita, queue="disputed") == [0]
    assert store.answers.history(rita, 9) == []
    assert queue_of(store, rita) == []  # deciding is not answering


def test_nobody_decides_a_disagreement_of_their_own(store):
    store.rounds.open("run", 1, [0], "logo", None, overlap=2)
    ada, rita = person(store, "ada"), person(store, "rita", reviewer=True)
    store.answers.record(ada, 0, "label", 3)
    store.answers.record(rita, 0, "label", 4)
    assert queue_of(store, ada, queue="disputed") == queue_of(store, rita, queue="disputed") == []
    with pytest.raises(SenselessError, match="only a reviewer decides"):
        store.answers.record(ada, 0, "label", 3, final=True)
    with pytest.raises(SenselessError, match="you answered about image 0 yourself: another reviewer"):
        store.answers.record(rita, 0, "label", 4, final=True)
    store.annotators.add("lee", lead=True)
    store.answers.record(store.annotators.find("lee"), 0, "label", 5, final=True)
    assert store.labels() == {0: 5}


def test_an_image_in_somebody_elses_queue_is_not_answered(store):
    store.rounds.open("run", 1, range(4), "logo", None)
    ada, bob = person(store, "ada"), person(store, "bob")
    assert queue_of(store, ada, 2) == [0, 1]
    for sample in (0, 1):  # ada's, whether answered yet or not
        with pytest.raises(NotTheirsError, match=f"image {sample} is not in your queue"):
            store.answers.record(bob, sample, "label", 9)
        store.answers.record(ada, sample, "label", 1)
        with pytest.raises(NotTheirsError):
            store.answers.record(bob, sample, "label", 9)
    store.answers.record(bob, 2, "label", 2)  # in nobody's yet, and next in his
    store.answers.record(ada, 0, "label", 3)  # her own, corrected
    store.rounds.close("run", 1)
    with pytest.raises(NotTheirsError):
        store.answers.record(bob, 1, "label", 9)
    store.answers.record(bob, 3, "label", 4)  # late
    assert store.labels() == {0: 3, 1: 1, 2: 2, 3: 4}


def test_who_was_away_still_answers_what_they_were_given(store, monkeypatch):
    store.rounds.open("run", 1, [0], "logo", None)
    ada, bob = person(store, "ada"), person(store, "bob")
    now = time.time()
    assert queue_of(store, ada) == [0]
    monkeypatch.setattr(queues.time, "time", lambda: now + queues.SECONDS_HELD + 1)
    assert queue_of(store, bob) == [0]
    store.answers.record(ada, 0, "label", 1)
    assert store.labels() == {0: 1}


def test_only_a_disagreement_is_decided(store):
    store.rounds.open("run", 1, [0], "logo", None, overlap=3)
    ada, bob, eve = (person(store, name) for name in ("ada", "bob", "eve"))
    rita = person(store, "rita", reviewer=True)

    def decide():
        store.answers.record(rita, 0, "label", 9, final=True)

    for who, label in ((ada, 3), (bob, 4), (eve, 4)):  # split after two answers, but a third is to come
        with pytest.raises(SenselessError, match="there is no disagreement about image 0 to decide"):
            decide()
        store.answers.record(who, 0, "label", label)
    with pytest.raises(SenselessError):
        decide()
    store.answers.record(eve, 0, "flag")
    decide()
    assert store.labels() == {0: 9}


def test_verdicts():
    a, b, skip, flag = ("label", 0), ("label", 1), ("skip", None), ("flag", None)
    assert verdict([]) == ("none", None)
    assert verdict([skip, skip]) == skip
    assert verdict([a, skip, skip]) == a
    assert verdict([a, b]) == verdict([a, flag]) == verdict([a, b, flag]) == ("split", None)
    assert verdict([a, b, a]) == a
    assert verdict([flag, flag, a]) == flag


def test_kappa_by_hand():
    # 50 proposals, two readers: 20 both yes, 15 both no, 5 and 10 mixed. p = .7, q = .5 (a textbook example)
    first = [1] * 20 + [1] * 5 + [0] * 10 + [0] * 15
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    assert cohen_kappa([0, 1, 2], [0, 1, 2]) == 1
    assert cohen_kappa([0, 1], [1, 0]) == -1
    assert cohen_kappa([], []) is None
    assert cohen_kappa([1, 1], [1, 1]) is None


# ---------------------------------------------------------------------------------------- annotators


def test_tokens_are_stored_as_hashes_only(store, tmp_path):
    token = store.annotators.add("ada")
    assert store.annotators.find_by_token(token).name == "ada"
    assert store.annotators.find_by_token(token + "x") is None
    store.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert all(token.encode() not in file.read_bytes() for file in tmp_path.iterdir())
    with pytest.raises(
        StoreError, match="there is already an annotator 'ada'; --renew gives them a new token"
    ):
        store.annotators.add(" ada ")
    new = store.annotators.renew("ada")
    assert store.annotators.find_by_token(token) is None
    store.annotators.remove("ada")
    assert store.annotators.find_by_token(new) is None
    with pytest.raises(StoreError, match="there is no annotator 'eve'; there is ada"):
        store.annotators.renew("eve")


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 61])
def test_names_are_names(store, name):
    with pytest.raises(UserError, match="is not a name"):
        store.annotators.add(name)


def test_a_lead_stays_one_until_removed(store):
    assert person(store, "ada").role == "annotator"
    for lead in (True, False):  # named a lead, and then only a new token
        store.annotators.renew("ada", lead=lead)
        assert store.annotators.find("ada").role == "lead"
    store.annotators.remove("ada")
    assert store.annotators.find_or_add("ada").role == "removed"
    assert person(store, "ada").role == "annotator"
    store.annotators.add("bob", lead=True)
    assert store.annotators.find("bob").role == "lead"


def test_who_is_removed_holds_nothing(store):
    store.rounds.open("run", 1, range(3), "logo", None)
    ada, bob = person(store, "ada"), person(store, "bob")
    assert queue_of(store, ada) == [0, 1, 2]
    store.annotators.remove("ada")
    assert queue_of(store, bob) == [0, 1, 2]


# ------------------------------------------------------------------------------------------ the file


def test_threads_and_a_second_store_lose_nothing(tmp_path):
    path = tmp_path / "labels.sqlite"
    store, other = LabelStore(path), LabelStore(path)
    store.rounds.open("run", 1, range(200), "logo", datetime.now(UTC) + timedelta(hours=1))
    people = [person(store, f"person {k}") for k in range(4)]

    def work(annotator, its_store):
        while requests := its_store.queues.next(annotator, "round", 3):
            its_store.answers.record(annotator, requests[0].sample, "label", annotator.id)

    threads = [
        threading.Thread(target=work, args=(one, s))
        for one, s in zip(people, [store, store, other, other], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.counts("run", 1) == Counts(200, 200, 0, 0, 0)
    events = store.database.one("SELECT count(*) FROM events")[0]
    assert events == 200  # nobody did what somebody else had done
    store.close()
    other.close()


def test_processes_write_side_by_side(store, tmp_path):
    store.rounds.open("run", 1, range(100), "logo", None)
    person(store, "ada")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=answer_fifty, args=(tmp_path / "labels.sqlite", k)) for k in (0, 50)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(store.labels()) == 100


def test_answers_are_durable_holds_need_not_be(store):
    store.rounds.open("run", 1, range(5), "logo", None)
    ada = person(store, "ada")
    statements = []
    store.database.connection.set_trace_callback(statements.append)
    store.answers.record(ada, 0, "label", 1)
    store.queues.next(ada, "round", 3)
    store.database.connection.set_trace_callback(None)
    assert [one for one in statements if "synchronous" in one] == [
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
    ]
    assert store.database.one("PRAGMA journal_mode")[0] == "wal"


def test_a_full_disk_is_told_and_loses_nothing(store):
    store.rounds.open("run", 1, range(5000), "logo", None)
    ada = person(store, "ada")
    store.answers.record(ada, 0, "label", 1)
    pages = store.database.one("PRAGMA page_count")[0]
    store.database.connection.execute(f"PRAGMA max_page_count = {pages}")
    everything = [Event(ada.id, sample, "label", 1) for sample in range(1, 5000)]
    with pytest.raises(StoreError, match=r"cannot use the label store .*: database or disk is full"):
        store.answers.append_all(everything)
    store.database.connection.execute("PRAGMA max_page_count = 1000000")
    assert store.labels() == {0: 1}
    store.answers.record(ada, 4999, "label", 1)
    assert store.labels() == {0: 1, 4999: 1}


def test_a_file_that_is_no_store_is_told(tmp_path):
    path = tmp_path / "labels.sqlite"
    path.write_bytes(b"holiday photos, " * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        LabelStore(path)
    path.unlink()
    store = LabelStore(path)
    store.database.connection.execute("PRAGMA user_version = 9")
    store.close()
    with pytest.raises(StoreError, match="written by a later version of fedactive"):
        LabelStore(path)


def test_a_store_of_an_earlier_version_goes_on(tmp_path):
    def shape(store):
        tables = store.database.rows("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        return {
            name: [tuple(row) for row in store.database.rows(f"PRAGMA table_info({name})")]
            for (name,) in tables
        }

    store = LabelStore(tmp_path / "labels.sqlite")
    new = shape(store)
    ada = person(store, "ada")
    store.annotators.find_or_add("label-studio 1")
    store.rounds.open("run", 1, [0], "logo", None)
    store.answers.record(ada, 0, "label", 1)
    for statement in (
        "ALTER TABLE annotators DROP COLUMN role",
        "DROP TABLE guesses_seen",
        "ALTER TABLE rounds DROP COLUMN planned",
        "ALTER TABLE annotators DROP COLUMN reviews",
        "DROP TABLE sessions",
        "DROP TABLE access",
        "DROP INDEX events_of_import",
        "ALTER TABLE events DROP COLUMN import",
        "DROP TABLE imports",
        "DROP TABLE gold",
        "DROP TABLE images",
        *(f"ALTER TABLE rounds DROP COLUMN {name}" for name in ("level", "width")),
        *(f"ALTER TABLE events DROP COLUMN {name}" for name in ("comment", "gold")),
        "PRAGMA user_version = 1",
    ):
        store.database.connection.execute(statement)
    store.close()
    store = LabelStore(tmp_path / "labels.sqlite")
    assert shape(store) == new
    assert [(one.name, one.role) for one in store.annotators.all()] == [
        ("ada", "annotator"),
        ("label-studio 1", "elsewhere"),
    ]
    assert store.labels() == {0: 1}
    store.close()


def test_the_file_is_for_its_owner_only(store, tmp_path):
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in tmp_path.iterdir())

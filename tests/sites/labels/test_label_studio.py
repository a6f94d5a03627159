"""Label Studio's JSON: what goes out comes back, and what cannot be used is named."""

import json
import threading
import time

import pytest

from fedactive.errors import UserError
from fedactive.sites.labels.answers import Event, SenselessError
from fedactive.sites.labels.database import StoreError
from fedactive.sites.labels.label_studio import Imported, export_tasks, import_tasks
from fedactive.sites.labels.store import LabelStore

NAMES = ("a.png", "b.png", "ward/a.png", "ward/c d.png")
CLASSES = ("benign", "malignant")


@pytest.fixture
def store(tmp_path):
    store = LabelStore(tmp_path / "labels.sqlite")
    store.rounds.open("run", 1, range(4), "logo", None)
    yield store
    store.close()


def task(image, *annotations):
    return {"id": 1, "data": {"image": image}, "annotations": list(annotations)}


def choice(name, **more):
    result = [{"from_name": "x", "to_name": "y", "type": "choices", "value": {"choices": [name]}}]
    return {"result": result, "was_cancelled": False, "lead_time": 3.5, **more}


def bring(store, *tasks, by=None):
    return import_tasks(store, NAMES, CLASSES, json.dumps(tasks).encode(), by or who_imports(store))


def who_imports(store):
    return store.annotators.find_or_add("who imports")


def test_there_and_back(store, tmp_path):
    store.annotators.add("ada")
    ada = store.annotators.find("ada")
    store.answers.record(ada, 0, "label", 0, seconds=1.5)
    store.answers.record(ada, 0, "label", 1, seconds=2.5)
    store.answers.record(ada, 1, "skip")
    store.answers.record(ada, 2, "flag")
    tasks = export_tasks(store, NAMES, CLASSES)
    assert [one["data"]["image"] for one in tasks] == list(NAMES)
    (annotation,) = tasks[0]["annotations"]
    assert annotation["result"] == [
        {"from_name": "label", "to_name": "image", "type": "choices", "value": {"choices": ["malignant"]}}
    ]
    assert (annotation["was_cancelled"], annotation["lead_time"]) == (False, 2.5)
    assert tasks[1]["annotations"][0]["was_cancelled"]
    assert tasks[3]["annotations"] == []
    other = LabelStore(tmp_path / "other.sqlite")
    other.rounds.open("run", 1, range(4), "logo", None)
    assert bring(other, *tasks) == Imported(3, 0, ())
    assert other.labels() == store.labels() == {0: 1}
    assert other.counts("run", 1) == store.counts("run", 1)
    assert bring(other, *tasks) == Imported(0, 3, ())
    assert [e.seconds for e in other.answers.history(other.annotators.find("ada"), 9)] == [None, None, 2.5]
    other.close()


def test_somebodys_last_answer_counts_however_often_it_is_imported(store):
    """People annotate a task twice in Label Studio, and tasks of the same image exist twice there."""
    tasks = [
        task("a.png", choice("benign", completed_by=1), choice("malignant", completed_by=1)),
        task("b.png", choice("benign", completed_by=1)),
        task("pool/b.png", choice("malignant", completed_by=1)),
        task("b.png", choice("malignant", completed_by=2)),
    ]
    left_out = tuple(f"task {k}: label-studio 1 answers about this image again further on" for k in (1, 2))
    assert bring(store, *tasks) == Imported(3, 0, left_out)
    for _ in range(2):
        assert store.labels() == {0: 1, 1: 1}
        assert bring(store, *tasks) == Imported(0, 3, left_out)


def as_label_studio_returns_it(task):
    """What Label Studio 1.23 keeps of a task it imports: `id` becomes `import_id`, and people become its user."""
    annotations = [
        {
            "id": 900 + k,
            "completed_by": 1,
            "result": one["result"],
            "was_cancelled": one["was_cancelled"],
            "ground_truth": True,
            "lead_time": one["lead_time"],
            "import_id": one["id"],
        }
        for k, one in enumerate(task["annotations"])
    ]
    return {"id": 77, "data": task["data"], "annotations": annotations, "drafts": [], "predictions": []}


def test_answers_that_went_to_label_studio_do_not_come_back_as_somebody_elses(tmp_path):
    store = LabelStore(tmp_path / "two.sqlite")
    store.rounds.open("run", 1, range(4), "logo", None, overlap=2)
    for name in ("ada", "bob"):
        store.annotators.add(name)
    for name, answers in {"ada": (0, 1, None), "bob": (1, 1, None)}.items():
        person = store.annotators.find(name)
        for sample, label in enumerate(answers):
            store.answers.record(person, sample, "flag" if label is None else "label", label)
    tasks = [as_label_studio_returns_it(one) for one in export_tasks(store, NAMES, CLASSES)]
    assert bring(store, *tasks) == Imported(0, 6, ())
    assert [one.name for one in store.annotators.all()] == ["ada", "bob", "who imports"]
    # What was said or changed there is new.
    tasks[3]["annotations"].append(choice("benign", completed_by=1))
    tasks[1]["annotations"][0]["result"] = choice("benign")["result"]
    assert bring(store, *tasks) == Imported(2, 5, ())
    assert store.labels() == {1: 1, 3: 0}
    assert len(store.answers.history(store.annotators.find("label-studio 1"), 9)) == 2
    store.close()


@pytest.mark.parametrize("number", [True, -1, 2**70, "1", [1], 0.5, 12])
def test_a_made_up_import_id_does_no_harm(store, number):
    assert bring(store, task("a.png", choice("benign", import_id=number))).recorded == 1


@pytest.mark.parametrize(
    ("called", "sample"),
    [
        ("a.png", 0),
        ("ward/a.png", 2),
        ("/data/local-files/?d=ward/a.png", 2),
        ("/data/local-files/?d=pool/images/ward/c%20d.png", 3),
        ("/data/upload/7/0a1b2c3d-b.png", 1),
        ("/data/upload/7/0a1b2c3d-c_d.png", 3),
        ("s3://bucket/some/where/b.png", 1),
        ("https://labels.example/files/ward/c%20d.png", 3),
    ],
)
def test_images_are_found_by_name(store, called, sample):
    assert bring(store, task(called, choice("benign"))).recorded == 1
    assert store.labels() == {sample: 0}


@pytest.mark.parametrize(
    ("called", "sample"),
    [
        ("50%20.png", 0),
        ("/data/local-files/?d=pool/50%20.png", 0),
        ("/data/local-files/?d=pool%2F50%2520.png", 0),
        ("50 .png", 1),
        ("ward%201/1.png", 3),
        ("x?d=1.png", 4),
        ("/data/upload/3/1a2b3c4d-2.png", 5),
        ("/data/upload/3/1a2b3c4d-3.png", 6),
    ],
)
def test_no_name_is_taken_for_another(store, called, sample):
    names = (
        "50%20.png",
        "50 .png",
        "1.png",
        "ward 1/1.png",
        "x?d=1.png",
        "ward 1/2.png",
        "1a2b3c4d-3.png",
        "3.png",
    )
    store.rounds.open("run", 2, range(len(names)), "logo", None)
    import_tasks(
        store, names, CLASSES, json.dumps([task(called, choice("benign"))]).encode(), who_imports(store)
    )
    assert store.labels() == {sample: 0}


@pytest.mark.parametrize("called", ["/data/upload/3/1a2b3c4d-a.png", "/data/upload/ward/1a2b3c4d-a.png"])
def test_an_uploaded_image_that_can_be_several_is_refused(store, called):
    assert bring(store, task(called, choice("benign"))) == Imported(
        0, 0, ("task 1: several images here are called 'a.png'",)
    )


def test_uploaded_images_are_found_though_their_names_change(store):
    names = ("scan (1) größer.png", "left eye.png", "left_eye.png")
    called = "/data/upload/3/1a2b3c4d-scan_1_gr%C3%B6%C3%9Fer.png", "/data/upload/3/1a2b3c4d-left_eye.png"
    tasks = json.dumps([task(one, choice("benign")) for one in called]).encode()
    assert import_tasks(store, names, CLASSES, tasks, who_imports(store)) == Imported(
        1, 0, ("task 2: several images here are called 'left_eye.png'",)
    )
    assert store.labels() == {0: 0}


def test_people_keep_their_names(store):
    bring(
        store,
        task("a.png", choice("benign", completed_by=7)),
        task("b.png", choice("benign", completed_by={"id": 3, "email": "eve@example.org"})),
        task("ward/a.png", choice("benign")),
    )
    assert [one.name for one in store.annotators.all()] == [
        "eve@example.org",
        "label-studio",
        "label-studio 7",
        "who imports",
    ]
    assert all(one.token_hash is None for one in store.annotators.all())


def test_what_cannot_be_used_is_left_out_and_named(store):
    imported = bring(
        store,
        task("../../etc/passwd", choice("benign")),
        task("a.png", choice("unclear")),
        task("b.png", {"result": [], "was_cancelled": False}),
        "no task",
        {"data": {"text": "no image"}},
        {"data": {"image": "a.png"}, "annotations": "none"},
        task("ward/a.png", choice("malignant")),
    )
    assert imported.recorded == 1
    assert imported.left_out == (
        "task 1: there is no image '../../etc/passwd' here",
        "task 2: 'unclear' is none of the classes",
        "task 3: an annotation is not a single choice",
        "task 4: it has no data.image",
        "task 5: it has no data.image",
        "task 6: its annotations are not a list of objects",
    )
    assert store.labels() == {2: 1}


def test_an_answer_that_cannot_be_used_takes_no_other_with_it(store):
    unclear, empty = choice("unclear", completed_by=1), {"result": [], "completed_by": 2}
    imported = bring(store, task("a.png", unclear, choice("benign", completed_by=3), empty))
    assert imported.recorded == 1
    assert imported.left_out == (
        "task 1: 'unclear' is none of the classes",
        "task 1: an annotation is not a single choice",
    )
    assert store.labels() == {0: 0}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": 1}', b"3"])
def test_another_file_is_told(store, content):
    with pytest.raises(UserError, match=r"this is no"):
        import_tasks(store, NAMES, CLASSES, content, who_imports(store))


def test_nobody_speaks_for_others_on_the_page(store):
    store.annotators.add("ada")
    store.annotators.add("bob")
    ada = store.annotators.find("ada")
    forged = task("a.png", choice("benign", annotator="bob"), choice("malignant", annotator="ada"))
    imported = bring(store, forged, by=ada)
    assert (imported.recorded, imported.left_out) == (1, ("task 1: bob can sign in here and answers alone",))
    assert store.labels() == {0: 1}


def test_nobody_speaks_for_others_by_a_name_that_is_cut_short(store):
    store.annotators.add(name := "b" * 59)
    imported = bring(store, task("a.png", choice("benign", annotator=name + " and more")))
    assert imported == Imported(0, 0, (f"task 1: {name} can sign in here and answers alone",))


def test_nobody_speaks_for_people_who_were_removed(store):
    store.annotators.add("bob")
    store.answers.record(store.annotators.find("bob"), 1, "label", 0)
    store.annotators.remove("bob")
    forged = [task(name, choice("benign", annotator="bob")) for name in ("a.png", "b.png")]
    assert bring(store, *forged) == Imported(0, 1, ("task 1: bob was removed here and answers no more",))
    assert store.labels() == {1: 0}


@pytest.mark.parametrize("time", ["Infinity", "-Infinity", "NaN", "1" * 400, "-1", "86401", '"3"', "null"])
def test_times_nobody_takes_are_unknown(store, time):
    content = json.dumps([task("a.png", choice("benign", lead_time="?"))]).replace('"?"', time)
    assert import_tasks(store, NAMES, CLASSES, content.encode(), who_imports(store)).recorded == 1
    (annotation,) = json.loads(json.dumps(export_tasks(store, NAMES, CLASSES), allow_nan=False))[0][
        "annotations"
    ]
    assert annotation["lead_time"] is None


def test_a_name_of_many_parts_takes_no_time(store):
    start = time.monotonic()
    assert bring(store, *[task("x/" * 20_000 + "a.png", choice("benign"))] * 50).recorded > 0
    assert bring(store, task("x/" * 20_000 + "z.png", choice("benign"))).recorded == 0
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("who", [[], [["x"]], 1.5, {"id": {"a": 1}}, {}])
def test_people_without_a_name_are_label_studios(store, who):
    bring(store, task("a.png", choice("benign", completed_by=who)))
    assert [one.name for one in store.annotators.all()] == ["label-studio", "who imports"]


def test_labels_nobody_asked_for_wait_until_somebody_does(tmp_path):
    store = LabelStore(tmp_path / "new.sqlite")
    bring(store, task("b.png", choice("malignant")))
    assert store.labels() == {}
    store.rounds.open("run", 1, [0, 1], "logo", None)
    assert store.labels() == {1: 1}
    assert store.counts("run", 1).pending == 1
    store.close()


def test_an_image_to_be_labelled_there_can_have_an_address(store):
    tasks = export_tasks(store, NAMES, CLASSES, "/data/local-files/?d=pool/")
    assert tasks[2]["data"]["image"] == "/data/local-files/?d=pool/ward/a.png"


def test_an_export_takes_no_longer_per_answer_where_there_are_many(tmp_path):
    """It took minutes at a site with 20,000 images, and nobody could answer meanwhile."""
    store = LabelStore(tmp_path / "many.sqlite")
    ada = store.annotators.find_or_add("ada")
    steps = []
    for first in (0, 500, 1000):
        store.answers.append_all([Event(ada.id, first + k, "label", 1) for k in range(500)])
        steps.append(0)

        def count():
            steps[-1] += 1

        store.database.connection.set_progress_handler(count, 100)
        export_tasks(store, NAMES, CLASSES)
        store.database.connection.set_progress_handler(None, 100)
    store.close()
    assert steps[2] < 4 * steps[0]


def test_an_import_is_undone_as_a_whole(store):
    bring(
        store,
        task("a.png", choice("benign", completed_by=1)),
        task("b.png", choice("benign", completed_by=1)),
    )
    bring(store, task("a.png", choice("malignant", completed_by=1)), task("ward/a.png", choice("benign")))
    assert store.labels() == {0: 1, 1: 0, 2: 0}
    second, first = store.imports.latest(9)
    assert (first.by, first.answers, first.undone, second.answers) == ("who imports", 2, False, 2)
    assert store.imports.undo(second.id) == 2
    assert store.labels() == {0: 0, 1: 0}  # what was said before stands again
    assert store.imports.undo(second.id) == 0
    assert [one.undone for one in store.imports.latest(9)] == [True, False]
    store.annotators.add("ada")
    ada = store.annotators.find("ada")
    assert [one.sample for one in store.queues.next(ada, "round", 9)] == [2, 3]  # held for nobody elsewhere
    assert bring(store, task("ward/a.png", choice("benign"))).recorded == 1  # it may come again
    with pytest.raises(SenselessError, match="there is no import 99"):
        store.imports.undo(99)


def test_an_interrupted_import_is_told_and_goes_on(store):
    tasks = [task(name, choice("benign")) for name in NAMES]
    for k in range(200):  # many people
        tasks += [task(name, choice("benign", completed_by=k)) for name in NAMES]
    pages = store.database.one("PRAGMA page_count")[0]
    store.database.connection.execute(f"PRAGMA max_page_count = {pages + 12}")
    with pytest.raises(StoreError, match=r"the import was interrupted, give the same file again: .* is full"):
        bring(store, *tasks)
    store.database.connection.execute("PRAGMA max_page_count = 1000000")
    (begun,) = store.imports.latest(9)
    assert 0 < begun.answers < len(tasks)
    assert bring(store, *tasks) == Imported(len(tasks) - begun.answers, begun.answers, ())


def test_people_label_while_answers_are_imported(tmp_path):
    """An import of 61 MB had the store for 16 seconds, in which nobody could answer."""
    store = LabelStore(tmp_path / "busy.sqlite")
    names = [f"{k}.png" for k in range(4000)]
    store.rounds.open("run", 1, range(4000), "logo", None)
    store.annotators.add("ada")
    ada = store.annotators.find("ada")
    padding = "x" * 2000
    tasks = [{"note": padding, **task(name, choice("benign"))} for name in names[:3000]]
    content = json.dumps(tasks).encode()
    importing = threading.Thread(
        target=import_tasks, args=(store, names, CLASSES, content, who_imports(store))
    )
    importing.start()
    waits = []
    for sample in range(3999, 3000, -1):
        if not importing.is_alive():
            break
        begun = time.perf_counter()
        store.answers.record(ada, sample, "label", 1)
        waits.append(time.perf_counter() - begun)
        time.sleep(0.01)
    importing.join()
    took = len(waits)
    assert took > 20
    assert sorted(waits)[-3] < 0.5
    assert store.database.one("SELECT count(*) FROM events WHERE import IS NOT NULL")[0] == 3000
    store.close()


@pytest.mark.parametrize(
    "content", ["", "[", "]", "[1 2]", "[[1]", "{}", "[1]]", "[1],", "nul", "[nul]", "[1,,2]"]
)
def test_what_is_no_list_in_json_is_refused(store, content):
    with pytest.raises(UserError, match="not a list of tasks in JSON"):
        import_tasks(store, NAMES, CLASSES, content.encode(), who_imports(store))
    assert store.imports.latest(9) == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_blanks_and_encodings_do_not_matter(store, encoding):
    content = f" [ {json.dumps(task('a.png', choice('benign')))} \n , 1 ]\n ".encode(encoding)
    found = import_tasks(store, NAMES, CLASSES, content, who_imports(store))
    assert (found.recorded, len(found.left_out)) == (1, 1)

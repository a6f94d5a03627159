"""The field for real: processes, sockets, TLS, keys, Flower, labelling pages. One federation for all tests.

It has a hard life: in the first AL round a site is killed, in the second the coordinator with its SuperLink.
"""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date, timedelta
from hashlib import sha256
from itertools import chain

import httpx
import numpy as np
import pytest
import safetensors.torch
import torch
from flwr.app import MetricRecord
from flwr.app.message.arraychunk import ArrayChunk
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_type_from_object_content,
)
from PIL import Image, ImageOps

from fedactive.errors import ConfigurationError, UserError
from fedactive.experiment import Experiment
from fedactive.laboratory import run as laboratory
from fedactive.laboratory.split import split
from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.certificates import make_authority
from fedactive.sites.coordinator import launch
from fedactive.sites.coordinator.status import read_status
from fedactive.sites.flower import processes
from fedactive.sites.flower.gate import REFUSED
from fedactive.sites.flower.supernode import NOT_ADMITTED, find_meaning
from fedactive.sites.keys import make_site_key, read_public_key
from fedactive.sites.rehearsal import wait_for
from support.networks import FEATURES, write_torchscript
from support.recorded_rehearsal import RecordedRehearsal

PLAN = """
dataset = "digits"
augment = "none"
strategy = "fairfal"
algorithm = "scaffold"
rounds = 2
fl_rounds = 2
local_epochs = 2
local_only_epochs = 4
device = "cpu"

[field]
evaluate_every = 2
"""

BACKBONE_PLAN = """
dataset = "scans"
strategy = "margin"
first = "auto"
budget = "8/client"
rounds = 1
fl_rounds = 2
augment = "none"
device = "cpu"

[images]
classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
backbone = "mine.pt"
size = 8

[field]
evaluate_every = 2
"""

PATIENCE = 300  # seconds, on a machine that is busy with other tests


@pytest.fixture(scope="module")
def experiment():
    return Experiment.from_toml(PLAN.split("[field]")[0], clients=3, workers=1)


@pytest.fixture(scope="module")
def rehearsal(experiment, tmp_path_factory):
    with RecordedRehearsal(tmp_path_factory.mktemp("field") / "rehearsal", experiment) as rehearsal:
        yield rehearsal


@pytest.fixture(scope="module")
def finished(rehearsal):
    """The run of the plan, with the accidents."""
    coordinator = rehearsal.coordinator
    plan = coordinator.keep_plan(PLAN)
    folder = coordinator.folder / "runs" / plan.experiment.name
    failures = []

    def watch_it():
        try:
            launch.run(coordinator, plan)
        except UserError as error:
            failures.append(str(error))

    watching = threading.Thread(target=watch_it)
    watching.start()
    wait_for(lambda: "AL round 1: people" in str(read_status(folder).phase), "labelling", PATIENCE)
    rehearsal.kill("north")
    rehearsal.start_site(rehearsal.sites[0])
    wait_for(lambda: "AL round 2: FL round 1" in str(read_status(folder).phase), "AL round 2", PATIENCE)
    rehearsal.kill("coordinator")
    watching.join()
    assert len(failures) == 1
    (coordinator.folder / "serving.json").unlink(missing_ok=True)
    rehearsal.start("coordinator", "coordinator", "serve", str(coordinator.folder))
    wait_for(rehearsal.is_serving, "the coordinator", PATIENCE)
    return launch.run(coordinator, plan)


def selections_at(site, folder):
    run = json.loads((folder / "field.json").read_text())["run"]
    files = sorted((site.folder / "runs" / run).glob("round-*.json"))
    return [json.loads(file.read_text())["samples"] for file in files]


def test_three_sites_give_the_laboratorys_numbers(experiment, rehearsal, finished, digits, tmp_path):
    lab = laboratory.run(Experiment.from_toml(experiment.to_toml(), runs_dir=tmp_path))
    pools = split(experiment, digits.train_labels, 10).pools
    for k, site in enumerate(rehearsal.sites):
        mine = lab.selections[lab.selections["client"] == k]
        expected = [group["sample"].tolist() for _, group in mine.groupby("al_round")]
        assert [pools[k][samples].tolist() for samples in selections_at(site, finished.folder)] == expected
    ours, theirs = (read_checkpoint(r.folder / "checkpoint.pt").server for r in (finished, lab))
    for name, value in theirs.weights.items():
        torch.testing.assert_close(ours.weights[name], value, rtol=1e-4, atol=1e-5)
    for name, value in theirs.state["control"].items():
        torch.testing.assert_close(ours.state["control"][name], value, rtol=1e-3, atol=1e-4)
    measured, expected = (
        r.metrics[r.metrics["model"] == "global"].set_index(["al_round", "fl_round"])["accuracy"].dropna()
        for r in (finished, lab)
    )
    assert set(measured.index) == {(1, 2), (2, 2)}
    np.testing.assert_allclose(measured, expected[measured.index], atol=1e-9)


def test_a_site_says_that_it_is_connected(rehearsal, finished):
    for site in rehearsal.sites:
        assert "connected to the coordinator at" in (rehearsal.folder / f"{site.name}.log").read_text()


def test_no_process_imports_what_lies_in_the_current_directory(rehearsal, finished):
    """Neither ours nor Flower's: the SuperLink, the SuperNodes, and the process of the run."""
    assert not rehearsal.imported.exists(), rehearsal.imported.read_text()


# --------------------------------------------------------------------------------------------- privacy

COUNTS = {"requested", "labelled", "skipped", "flagged", "pending", "labelled_in_all", "images", "samples"}
METRICS = {"tested", "right", "predicted", "confusion", "loss", "problem", "summary"}

PUSH = "/v1/fleet/push-object?"


def pushed(requests):
    """Everything that sites sent but bare calls, by its type in Flower."""
    parts: dict[str, list[bytes]] = {}
    for path, _, body in requests:
        if path.startswith(PUSH):
            content = PushObjectRequest.FromString(body).object_content
            parts.setdefault(get_object_type_from_object_content(content), []).append(content)
    return parts


def test_sites_send_weights_counts_and_metrics_and_nothing_else(rehearsal, finished, experiment):
    """Every object that a site has sent, taken apart."""
    model = read_checkpoint(finished.folder / "checkpoint.pt").server.weights
    parts = pushed(rehearsal.recorder.requests)
    for path, headers, body in rehearsal.recorder.requests:
        assert len(body) < 4000 or path.startswith(PUSH), path
        assert len(headers) < 2000
    assert parts.keys() == {"Message", "RecordDict", "MetricRecord", "ArrayRecord", "Array", "ArrayChunk"}
    records = [MetricRecord.inflate(content) for content in parts["MetricRecord"]]
    assert all(record.keys() <= COUNTS | METRICS for record in records)
    told = [record["summary"] for record in records if "summary" in record]
    assert len(told) == 3  # once from each site
    assert all(len(numbers) == 1 and 0 < numbers[0] <= 1 for numbers in told)
    for content in parts["ArrayChunk"]:
        weights = safetensors.torch.load(get_object_body(content, ArrayChunk))
        assert weights.keys() <= model.keys()
        assert all(value.shape == model[name].shape for name, value in weights.items())
    rest = [part for name in ("Message", "RecordDict", "ArrayRecord", "Array") for part in parts[name]]
    assert max(map(len, rest)) < 1000  # ids, names and lengths of the records


def test_no_pixel_label_name_or_index_is_in_what_sites_send(rehearsal, finished, experiment, digits):
    sent = rehearsal.recorder.everything
    pools = split(experiment, digits.train_labels, 10).pools
    assert len(sent) > 1e6  # the recorder has seen the weights
    # Needles of 8 bytes or more: shorter ones turn up in megabytes of weights by chance.
    for needle in (b"\x89PNG\r\n\x1a\n", b"labels.sqlite", b"scripted", b"north-images", b"rehearsal"):
        assert needle not in sent
    for k, site in enumerate(rehearsal.sites):
        for samples in selections_at(site, finished.folder):
            positions = pools[k][samples]
            assert not any(f"{sample:06}.png".encode() in sent for sample in samples)
            images = digits.train_inputs[torch.from_numpy(positions)]
            for image in images:
                assert image.numpy().tobytes() not in sent
                for scaled in (image / 255, (image / 255 - digits.mean[0]) / digits.std[0]):
                    assert scaled.float().numpy().tobytes() not in sent
            labels = digits.train_labels[torch.from_numpy(positions)].numpy()
            for secret in (np.array(samples), positions, labels, np.sort(samples)):
                for kind in (np.int64, np.int32, np.int16, np.float32, np.float64):
                    assert secret.astype(kind).tobytes() not in sent
                assert ", ".join(map(str, secret[:6])).encode() not in sent
                assert ",".join(map(str, secret[:6])).encode() not in sent


def test_the_search_finds_what_is_sent(rehearsal, finished):
    assert b"head.weight" in rehearsal.recorder.everything


# -------------------------------------------------------------------------------------- with a backbone


def test_with_a_backbone_sites_embed_once_and_send_sums_and_heads(rehearsal, finished):
    """From the file that people have put into the folders of the coordinator and the sites."""
    first, *others = (rehearsal.coordinator.folder, *(site.folder for site in rehearsal.sites))
    (first / "backbones").mkdir()
    write_torchscript(first / "backbones" / "mine.pt", size=8)
    for folder in others:  # copies: the same network traced again is another file
        shutil.copytree(first / "backbones", folder / "backbones")
    before = len(rehearsal.recorder.requests)
    run = launch.run(rehearsal.coordinator, rehearsal.coordinator.keep_plan(BACKBONE_PLAN))
    assert run.metrics.query("model == 'global'")["labelled"].tolist() == [24]
    requests = rehearsal.recorder.requests[before:]
    forms = []
    for content in pushed(requests)["ArrayChunk"]:
        tensors = safetensors.torch.load(get_object_body(content, ArrayChunk))
        forms.append(sorted((name, *value.shape) for name, value in tensors.items()))
        assert len(content) < sum(value.nbytes for value in tensors.values()) + 500
    sums = [("squares", FEATURES), ("sums", FEATURES)]
    head = [("head.bias", 10), ("head.weight", 10, FEATURES)]
    assert sorted(forms) == [head] * 3 * 2 + [sums] * 3  # sites, FL rounds
    records = [MetricRecord.inflate(content) for content in pushed(requests)["MetricRecord"]]
    assert [len(record["summary"]) for record in records if "summary" in record] == [16] * 3
    for site in rehearsal.sites:
        assert "images are embedded" in (rehearsal.folder / f"{site.name}.log").read_text()
    # All calls that the sites make for an FL round, with headers, heartbeats, counts and what came before.
    assert sum(map(len, chain(*requests))) / (3 * 2) < 150_000


# -------------------------------------------------------------------------------------------- the door


def supernode(folder, coordinator, key, authority):
    """The exit code of a SuperNode that tries to get in, and what it says."""
    log = folder / "log"
    arguments = ["--superlink", coordinator.address, "--root-certificates", authority]
    arguments += ["--auth-supernode-private-key", key, "--isolation", "process", "--max-retries", "1"]
    arguments += ["--port", processes.free_port()]
    process = processes.start("supernode", arguments, folder / "home", log)
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until and "SuperNode ID" not in log.read_text():
        time.sleep(0.1)
    processes.end(process)
    return log.read_text()


def test_an_unknown_key_is_refused(rehearsal, finished, tmp_path):
    make_site_key(tmp_path / "key", tmp_path / "key.pub", "stranger")
    ca = rehearsal.coordinator.folder / "ca.pem"
    said = supernode(tmp_path, rehearsal.coordinator, tmp_path / "key", ca)
    assert "SuperNode ID" not in said
    assert find_meaning(said) == NOT_ADMITTED


def test_a_coordinator_with_another_authority_is_not_trusted(rehearsal, finished, tmp_path):
    make_authority(tmp_path)
    said = supernode(
        tmp_path, rehearsal.coordinator, rehearsal.sites[0].folder / "site.key", tmp_path / "ca.pem"
    )
    assert "SuperNode ID" not in said
    assert "is not the one of the invitation" in find_meaning(said)


@pytest.mark.parametrize("path", ["/v1/control/list-nodes", "/v1/runtime/acquire-task", "/docs", "/health"])
def test_the_gate_lets_nothing_but_sites_in(rehearsal, finished, path):
    trusted = ssl.create_default_context(cafile=str(rehearsal.coordinator.folder / "ca.pem"))
    url = f"https://{rehearsal.coordinator.address}"
    assert httpx.post(url + path, verify=trusted).status_code == 404
    dotted = httpx.post(url + "/v1/fleet/../control/list-nodes", verify=trusted)
    assert dotted.status_code == 404
    assert httpx.post(url + "/v1/fleet/pull-messages", verify=trusted).status_code == REFUSED
    # Who shows the public key of a site without its signature is a stranger, too.
    key = base64.b64encode(rehearsal.coordinator.keys()[0].encode()).decode()
    posing = httpx.post(
        url + "/v1/fleet/pull-messages", verify=trusted, headers={FLEET_HTTP_PUBLIC_KEY_HEADER: key}
    )
    assert posing.status_code == REFUSED


# ------------------------------------------------------------------------------------- coming and going


def test_admission_can_be_repeated_and_done_at_the_same_time(rehearsal, finished, tmp_path):
    coordinator = rehearsal.coordinator
    with pytest.raises(UserError, match=r"north.*site.pub is admitted already, as north"):
        coordinator.admit(rehearsal.sites[0].folder / "site.pub", "another name")
    names = ["one", "two", "three"]
    for name in names:
        make_site_key(tmp_path / name, tmp_path / f"{name}.pub", name)
    with closing(coordinator.control()) as control:  # an admission that was killed halfway
        control.admit(read_public_key(tmp_path / "one.pub")[0], "one")
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda name: coordinator.admit(tmp_path / f"{name}.pub", None), names))
    known = coordinator.all_sites()
    assert {site.name for site in known[3:]} == set(names)
    assert {site.admitted for site in known} <= {str(date.today()), str(date.today() - timedelta(days=1))}
    assert len({site.node for site in known}) == 6
    for name in [*names, "one"]:  # this can be repeated, too
        coordinator.dismiss(name)
    with pytest.raises(UserError, match="this key was dismissed; the site needs a new one"):
        coordinator.admit(tmp_path / "one.pub", "somebody else")
    with pytest.raises(ConfigurationError, match="a name that no other site has or had"):
        coordinator.admit(tmp_path / "one.pub", None)
    with pytest.raises(ConfigurationError, match="did you mean 'north'"):
        coordinator.dismiss("nord")
    assert [site.name for site in coordinator.sites()] == ["north", "south", "west"]


def test_a_run_is_stopped_and_goes_on_without_a_site_that_was_dismissed(rehearsal, finished):
    coordinator = rehearsal.coordinator
    short = PLAN.replace('"fairfal"', '"random"').replace("rounds = 2", "rounds = 1")
    plan = coordinator.keep_plan(short)
    folder = coordinator.run_folder(plan)
    with ThreadPoolExecutor() as threads:
        watching = threads.submit(launch.run, coordinator, plan)
        wait_for(lambda: "AL round 1" in str(read_status(folder).phase), "AL round 1", PATIENCE)
        launch.stop(coordinator, plan)
        with pytest.raises(UserError, match="the same command goes on from where it was"):
            watching.result(PATIENCE)
    with pytest.raises(UserError, match="no run of this plan is going on"):
        launch.stop(coordinator, plan)
    coordinator.dismiss("west")
    assert launch.run(coordinator, plan).selections["client"].unique().tolist() == [0, 1]
    west = rehearsal.sites[2].folder
    wait_for(lambda: "412 Precondition Failed" in (west / "flower.log").read_text(), "the refusal", PATIENCE)


# ---------------------------------------------------------------------------------------- a pool that grows


def test_a_folder_grows_between_two_rounds(rehearsal, finished):
    """Mirrored pictures arrive, one that is labelled is renamed, and one is deleted, while the site serves."""
    site, person = rehearsal.sites[1], rehearsal.people[1]
    first, second = selections_at(site, finished.folder)
    before = len(list(site.images.iterdir()))
    for path in sorted(site.images.iterdir())[:50]:
        mirrored = site.images / f"new-{path.name}"
        ImageOps.mirror(Image.open(path)).save(mirrored)
        person.known[digest(mirrored)] = person.known[digest(path)]
    (site.images / f"{first[0]:06}.png").rename(site.images / "renamed.png")
    (site.images / f"{first[1]:06}.png").unlink()
    longer = rehearsal.coordinator.keep_plan(PLAN.replace("\nrounds = 2", "\nrounds = 3"))
    assert launch.run(rehearsal.coordinator, longer).folder == finished.folder
    log = (rehearsal.folder / "south.log").read_text()
    assert "50 new images" in log
    assert f"{first[1]:06}.png is gone; its label counts again when it is back" in log
    south = read_status(finished.folder).sites["south"]
    third = selections_at(site, finished.folder)[2]
    assert south["images"] == before + 50 - 1
    assert south["labelled_in_all"] == len(first) + len(second) + len(third) - 1
    with closing(site.store()) as store:
        labels = store.labels()
    assert labels[first[0]] == person.answers[first[0]]
    assert first[1] not in labels


def digest(file):
    return sha256(file.read_bytes()).hexdigest()

"""A whole federation on this machine, for the demo and the tests: real processes, sockets, keys and pages.

The laboratory's clients become sites: each gets its pool as PNG files, and a share of the test images.
Threads play the people: they fetch the pictures from the page and know the classes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import httpx
import torch
from PIL import Image
from torch import Tensor

from fedactive.children import environment_of_a_child
from fedactive.data.loader import load
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.laboratory.split import split
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.flower import processes
from fedactive.sites.site.folder import Site

NAMES = ("north", "south", "west", "east")  # more are called site-5, site-6 and so on
SECONDS_TO_START = 300.0
SECONDS_TO_END = 30.0
SECONDS_BETWEEN_VISITS = 0.5


class Rehearsal:
    def __init__(
        self, folder: Path, experiment: Experiment, annotators: bool = True, host: str = "localhost"
    ) -> None:
        """`experiment` says who has which images; what is run later may differ in everything else.

        `host` is the coordinator's name.
        """
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.people: list[ScriptedAnnotator] = []
        data = load(experiment.dataset, experiment.data_dir)
        pools = split(experiment, data.train_labels, len(data.classes)).pools
        folder.mkdir(parents=True)
        (folder / "classes.txt").write_text("\n".join(data.classes))
        self.coordinator = Coordinator.init(folder / "coordinator", f"{host}:{processes.free_port()}")
        self.sites: list[Site] = []
        for k, (name, pool) in enumerate(zip(name_sites(experiment.clients), pools, strict=True)):
            images, test = folder / f"{name}-images", folder / f"{name}-test"
            positions = torch.from_numpy(pool)
            known = write_images(images, data.train_inputs[positions], data.train_labels[positions])
            for label, title in enumerate(data.classes):
                mine = torch.arange(k, len(data.test_labels), experiment.clients)
                mine = mine[data.test_labels[mine] == label]
                if len(mine):
                    write_images(test / title, data.test_inputs[mine], data.test_labels[mine])
            site = Site.init(folder / name, name, images, folder / "classes.txt", test)
            site.join(self.coordinator.folder / "invitation.toml")
            self.sites.append(site)
            if annotators:
                with closing(site.store()) as store:
                    token = store.annotators.add("scripted")
                self.people.append(ScriptedAnnotator(site, token, known))

    def __enter__(self) -> Rehearsal:
        """Start the coordinator, which has to admit the sites, then all sites at once."""
        try:
            self.start_coordinator()
            wait_for(self.is_serving, "the coordinator")
            for site in self.sites:
                self.coordinator.admit(site.folder / "site.pub", None)
                self.start_site(site)
            for person in self.people:
                person.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for person in self.people:
            person.stop()
        # Sites first, so that each can sign off at the coordinator.
        sites = [process for name, process in self.running.items() if name != "coordinator"]
        end(sites)
        end([process for process in self.running.values() if process not in sites])

    def is_serving(self) -> bool:
        return (self.coordinator.folder / "serving.json").exists()

    def start_coordinator(self) -> None:
        self.start("coordinator", "coordinator", "serve", str(self.coordinator.folder))

    def start_site(self, site: Site) -> None:
        self.start(site.name, "site", "serve", str(site.folder), "--port", "0", "--device", "cpu")

    def start(self, name: str, *arguments: str) -> None:
        """Start a command of fedactive in a process of its own; its output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.command([sys.executable, "-m", "fedactive", *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment_of_a_child({"OMP_NUM_THREADS": "1"}),  # several sites share this machine
            )

    def command(self, words: list[str]) -> list[str]:
        """The command that starts; a subclass may wrap it in another one."""
        return words


class ScriptedAnnotator(threading.Thread):
    """Signs in like a person, fetches each picture from the page, and answers with its true class."""

    def __init__(self, site: Site, token: str, known: Mapping[str, int]) -> None:
        super().__init__(daemon=True)
        self.site = site
        self.token = token
        self.known = known
        self.answers: dict[int, int] = {}  # that the page has confirmed
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                address = json.loads((self.site.folder / "page.json").read_text())["address"]
                with httpx.Client(base_url=address, timeout=30) as browser:
                    self.work(browser)
            except (OSError, ValueError, httpx.HTTPError):  # the page is not there (yet)
                self.stopped.wait(SECONDS_BETWEEN_VISITS)

    def work(self, browser: httpx.Client) -> None:
        signed_in = browser.post("/api/sign-in", json={"token": self.token}).raise_for_status().json()
        browser.headers["x-csrf-token"] = signed_in["csrf"]
        while not self.stopped.is_set():
            images = browser.get("/api/next").raise_for_status().json()["images"]
            for image in images:
                picture = browser.get(image["image"]).raise_for_status().content
                label = self.known[hashlib.sha256(picture).hexdigest()]
                answer = {"sample": image["sample"], "action": "label", "label": label, "seconds": 1.0}
                browser.post("/api/answer", json=answer).raise_for_status()
                self.answers[image["sample"]] = label
            if not images:
                self.stopped.wait(SECONDS_BETWEEN_VISITS)

    def stop(self) -> None:
        self.stopped.set()


def name_sites(count: int) -> list[str]:
    return [NAMES[k] if k < len(NAMES) else f"site-{k + 1}" for k in range(count)]


def write_images(folder: Path, images: Tensor, labels: Tensor) -> dict[str, int]:
    """Write PNG files, and return the class of each by the hash of its content."""
    folder.mkdir(parents=True)
    known = {}
    for k, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        path = folder / f"{k:06}.png"
        Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy()).save(path)
        known[hashlib.sha256(path.read_bytes()).hexdigest()] = label
    return known


def wait_for(condition: Callable[[], bool], what: str, seconds: float = SECONDS_TO_START) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            raise UserError(f"{what} did not come within {seconds:.0f} s")
        time.sleep(0.1)


def end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

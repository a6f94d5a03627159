"""Does the labelling page keep up with 20 annotators on one core? Promised: 99 of 100 answers in 100 ms.

    python benchmarks/labelling.py [--annotators 20] [--seconds 30]

The real server and store in a process of their own, tied to one core, every answer synced to disk. Annotators
are threads of this process that do over loopback what the page's script does: each answer a POST, each image
fetched ahead. They answer once a second, faster than people do; then as fast as they can, which is no
promise but shows what is left. A round of 5,000 images of 64 x 64 pixels. The result goes to
results/labelling.txt, too.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from fedactive.record.environment import cpu_name
from fedactive.sites.labels.store import LabelStore

MILLISECONDS = 100.0
IMAGES, SIZE, CLASSES = 5_000, 64, 8
RESULT = Path(__file__).parent / "results" / "labelling.txt"
SERVER = """
import os, sys
from pathlib import Path
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
from fedactive.sites.site.read_images import read_images
from fedactive.sites.page.app import create_app
from fedactive.sites.page.server import PageServer
from fedactive.sites.labels.store import LabelStore
folder, size, classes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
images = read_images(folder / "images.npz", (3, size, size))
names = [f"class {k}" for k in range(classes)]
app = create_app(LabelStore(folder / "labels.sqlite"), images, names, secret=b"benchmark", title="Benchmark")
server = PageServer(app, "127.0.0.1", 0)
print(server.address.rpartition(":")[2], flush=True)
server.run()
"""


class Annotator:
    """One browser: a connection that stays open, images ahead of time, one answer after the other."""

    def __init__(self, port: int, token: str, pause: float, end: float, rng: np.random.Generator) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Content-Type": "application/json"}
        self.pause, self.end, self.rng = pause, end, rng
        self.milliseconds: dict[str, list[float]] = {"answer": [], "image": []}
        result = self.call("POST", "/api/sign-in", {"token": token})
        self.headers["X-CSRF-Token"] = json.loads(result)["csrf"]

    def call(self, method: str, path: str, body: Any = None, kind: str = "") -> bytes:
        start = time.perf_counter()
        self.connection.request(method, path, json.dumps(body) if body else None, self.headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if kind:
            self.milliseconds[kind].append(1000 * (time.perf_counter() - start))
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {content.decode()}")
        if cookie := answer.getheader("Set-Cookie"):
            self.headers["Cookie"] = cookie.partition(";")[0]
        return content

    def work(self) -> None:
        fetched: set[str] = set()
        time.sleep(self.pause * self.rng.random())  # not all in step
        work = json.loads(self.call("GET", "/api/next"))
        while work["images"] and time.monotonic() < self.end:
            for image in work["images"]:
                if image["image"] not in fetched:
                    fetched.add(image["image"])
                    self.call("GET", image["image"], kind="image")
            time.sleep(self.pause * self.rng.uniform(0.5, 1.5))
            given = {
                "sample": work["images"][0]["sample"],
                "label": int(self.rng.integers(CLASSES)),
                "seconds": self.pause,
            }
            work = json.loads(self.call("POST", "/api/answer", given, kind="answer"))
        self.connection.close()


def measure(annotators: int, seconds: float, pause: float) -> list[str]:
    """One line per kind of request; raises if a confirmed answer is not in the store."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        images = rng.integers(256, size=(IMAGES, SIZE, SIZE, 3), dtype=np.uint8)
        np.savez(folder / "images.npz", train_images=images)
        store = LabelStore(folder / "labels.sqlite")
        store.rounds.open("benchmark", 1, range(IMAGES), "random", None)
        tokens = [store.annotators.add(f"annotator {k}") for k in range(annotators)]
        command = [sys.executable, "-c", SERVER, name, str(SIZE), str(CLASSES)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            start = time.monotonic()
            end = start + seconds
            generators = zip(tokens, rng.spawn(annotators), strict=True)
            people = [Annotator(port, token, pause, end, generator) for token, generator in generators]
            threads = [threading.Thread(target=person.work) for person in people]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            elapsed = time.monotonic() - start
            server.kill()
        answers = sum(len(person.milliseconds["answer"]) for person in people)
        if len(store.labels()) != answers:
            raise RuntimeError(f"{answers} answers were confirmed, {len(store.labels())} are in the store")
        store.close()
    lines = []
    for kind in ("answer", "image"):
        times = np.concatenate([person.milliseconds[kind] for person in people])
        p50, p99 = np.percentile(times, [50, 99])
        rate = len(times) / elapsed
        lines.append(f"{kind:8}{rate:9.1f}{p50:10.1f}{p99:10.1f}{times.max():10.1f}")
    return lines


def main(
    annotators: Annotated[int, typer.Option(help="people who label at the same time", min=1)] = 20,
    seconds: Annotated[float, typer.Option(help="how long each measurement takes", min=1)] = 30.0,
) -> None:
    lines = [
        f"python benchmarks/labelling.py    ({datetime.now(UTC):%Y-%m-%d}, server on 1 core of {cpu_name()})",
        "",
        f"{annotators} annotators, {seconds:g} s or a round of {IMAGES} images",
    ]
    paced = measure(annotators, seconds, 1.0)
    p99 = float(paced[0].split()[3])
    heading = f"{'':8}{'per s':>9}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}"
    lines += ["", "one answer per second each", heading, *paced]
    lines += ["", "as fast as they can", heading, *measure(annotators, seconds, 0.0)]
    ok = p99 < MILLISECONDS
    verdict = "ok" if ok else "TOO MUCH"
    lines += [
        "",
        f"99 of 100 answers within {p99:.1f} ms at one a second, promised {MILLISECONDS:g}   {verdict}",
    ]
    text = "\n".join(lines)
    print(text)
    RESULT.write_text(text + "\n")
    if not ok:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

"""Make folders of a coordinator and two sites, as a release of fedactive leaves them in the middle of a run.

    PYTHONPATH=RELEASE/src python tests/releases/make.py tests/releases/0.1.0.zip

Only commands and the labelling page are used, so that this works with every release. AL round 1 is done; in
AL round 2 people have answered some of what they were asked when everything is stopped. labels.json in the
archive says what they have answered, by the number of the image. The classes are told apart by brightness.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

CLASSES = ("dark", "middle", "bright")
IMAGES, TESTS, SIZE = 30, 6, 8  # at each site
PLAN = """
dataset = "grey"
augment = "none"
strategy = "entropy"
budget = 10
rounds = 3
fl_rounds = 2
device = "cpu"

[images]
classes = ["dark", "middle", "bright"]
size = 8
channels = 1
"""
ANSWERS_OF_ROUND_1, ANSWERS_OF_ROUND_2 = 5, 2  # at each site; all, and not all that it is asked
FOLDER = "FOLDER"  # stands for the folder in which all of it is
# All that is not kept: what is made again, and what is large and says nothing.
LEFT_OUT = (
    "checkpoint.previous.pt",
    "flower.log",
    "cache",
    "serving.json",
    "page.json",
    "runner.secret",
    "-wal",
    "-shm",
    ".lock",
)


def draw(folder: Path, count: int, seed: int, label: int | None = None) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for k in range(count):
        shade = 40 + 80 * (k % len(CLASSES) if label is None else label)
        Image.fromarray(rng.integers(shade, shade + 40, (SIZE, SIZE), np.uint8)).save(folder / f"{k:02}.png")


def class_of(picture: bytes) -> int:
    return int((np.asarray(Image.open(io.BytesIO(picture)).convert("L")).mean() - 20) // 80)


def fedactive(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fedactive", *map(str, words)], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "fedactive", *map(str, words)])


def wait_for(file: Path) -> str:
    while not file.exists():
        time.sleep(0.2)
    return file.read_text()


def answer(site: Path, token: str, count: int) -> dict[int, int]:
    """Label so many images on the site's page, as they are asked for."""
    answers: dict[int, int] = {}
    with httpx.Client(base_url=json.loads(wait_for(site / "page.json"))["address"], timeout=60) as browser:
        browser.headers["x-csrf-token"] = browser.post("/api/sign-in", json={"token": token}).json()["csrf"]
        while len(answers) < count:
            images = browser.get("/api/next").raise_for_status().json()["images"]
            for image in images[: count - len(answers)]:
                label = class_of(browser.get(image["image"]).raise_for_status().content)
                said = {"sample": image["sample"], "action": "label", "label": label, "seconds": 1.0}
                browser.post("/api/answer", json=said).raise_for_status()
                answers[image["sample"]] = label
            time.sleep(0.2)
    return answers


def main(archive: Path) -> None:
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    Path("classes.txt").write_text("\n".join(CLASSES))
    Path("plan.toml").write_text(PLAN)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fedactive("coordinator", "init", "hub", "--address", f"localhost:{port}")
    running = [start("coordinator", "serve", "hub")]
    wait_for(Path("hub/serving.json"))
    labels: dict[str, dict[int, int]] = {}
    tokens: dict[str, str] = {}
    for seed, name in enumerate(("north", "south")):
        draw(Path(f"{name}-images"), IMAGES, seed)
        for label, title in enumerate(CLASSES):
            draw(Path(f"{name}-test/{title}"), TESTS, 100 * seed + label, label)
        data = ("--images", f"{name}-images", "--classes", "classes.txt", "--test", f"{name}-test")
        fedactive("site", "init", name, "--name", name, *data)
        fedactive("site", "join", name, "hub/invitation.toml")
        tokens[name] = fedactive("site", "annotator", name, "ada")
        fedactive("coordinator", "admit", "hub", f"{name}/site.pub")
        running.append(start("site", "serve", name, "--port", "0", "--device", "cpu"))
    watching = start("coordinator", "run", "hub", "plan.toml")
    for count in (ANSWERS_OF_ROUND_1, ANSWERS_OF_ROUND_2):
        for name, token in tokens.items():
            labels[name] = labels.get(name, {}) | answer(Path(name), token, count)
    for process in (watching, *reversed(running)):
        process.terminate()
        process.wait()
    for name in tokens:
        site_file = Path(name, "site.toml")
        site_file.write_text(site_file.read_text().replace(str(folder), FOLDER))
    Path("labels.json").write_text(json.dumps(labels))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as kept:
        for file in sorted(path for path in Path().rglob("*") if path.is_file()):
            if not any(part in str(file) for part in LEFT_OUT):
                kept.write(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())

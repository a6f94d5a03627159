"""Decoded images in a file that is mapped: made once, by one process, and resumed after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from fedactive.data import pixel_map
from fedactive.data.own_images import mean_and_std
from fedactive.data.pixel_map import decode_into, file_of, normalisation_of, open_map
from fedactive.errors import RunError
from support.picture_files import write_folder

SHAPE = (1, 4, 4)


class Decoder:
    """Counts what it decodes; image k is full of k. It may be stopped at one of them."""

    def __init__(self, stop: int = -1) -> None:
        self.decoded: list[int] = []
        self.stop = stop

    def __call__(self, k: int) -> np.ndarray:
        if k == self.stop:
            raise KeyboardInterrupt
        self.decoded.append(k)
        return np.full(SHAPE, k, np.uint8)


def make(path: Path, decode: Decoder) -> list[int]:
    done: list[int] = []
    decode_into(path, 50, SHAPE, decode, done.append)
    return done


def test_every_image_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pixel_map, "PART_IMAGES", 8)
    path, first, second = tmp_path / "a" / "train.pixels", Decoder(), Decoder()
    assert sum(make(path, first)) == 50
    assert sorted(first.decoded) == list(range(50))
    assert make(path, second) == [50]
    assert not second.decoded
    images = open_map(path, 50, SHAPE)
    assert torch.equal(images, torch.arange(50, dtype=torch.uint8).view(50, 1, 1, 1).expand(50, *SHAPE))
    assert [file.name for file in path.parent.iterdir()] == ["train.pixels"]


def test_large_images_are_decoded_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pixel_map, "PART_BYTES", 400)  # of 16 each
    assert make(tmp_path / "train.pixels", Decoder()) == [0, 25, 25]
    monkeypatch.setattr(pixel_map, "PART_BYTES", 410)
    assert make(tmp_path / "test.pixels", Decoder()) == [0, 25, 25]


def test_what_was_stopped_goes_on_after_the_last_whole_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pixel_map, "PART_IMAGES", 8)
    path, rest = tmp_path / "train.pixels", Decoder()
    with pytest.raises(KeyboardInterrupt):
        make(path, Decoder(stop=29))
    assert not path.exists()
    with open(tmp_path / ".train.pixels.partial", "ab") as file:
        file.write(b"half an image")
    done = make(path, rest)
    assert (done[0], sum(done)) == (24, 50)
    assert sorted(rest.decoded) == list(range(24, 50))
    assert open_map(path, 50, SHAPE)[:, 0, 0, 0].tolist() == list(range(50))


def test_a_file_of_another_length_is_made_anew(tmp_path: Path):
    path = tmp_path / "train.pixels"
    path.write_bytes(b"short")
    make(path, Decoder())
    assert path.stat().st_size == 50 * 16


def test_two_processes_decode_it_once(tmp_path: Path):
    program = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        import numpy as np
        from fedactive.data.pixel_map import decode_into
        def decode(k):
            sys.stdout.write(f"{k}\\n")  # whole, whoever else writes
            time.sleep(0.02)
            return np.full((1, 4, 4), k, np.uint8)
        decode_into(Path(sys.argv[1]), 50, (1, 4, 4), decode, lambda more: None)
    """)
    command = [sys.executable, "-c", program, str(tmp_path / "train.pixels")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = "".join(one.communicate()[0] for one in both).split()
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(map(int, lines)) == list(range(50))


def test_a_map_knows_its_file_unless_it_is_a_part(tmp_path: Path):
    make(tmp_path / "train.pixels", Decoder())
    images = open_map(tmp_path / "train.pixels", 50, SHAPE)
    assert file_of(images) == tmp_path / "train.pixels"
    assert file_of(images[1:]) is None
    assert file_of(images.clone()) is None


def test_the_normalisation_is_kept(tmp_path: Path):
    path = tmp_path / "train.pixels"
    make(path, Decoder())
    images = open_map(path, 50, SHAPE)
    wanted = mean_and_std(images.numpy())
    assert normalisation_of(path, images) == wanted
    assert normalisation_of(path, images[:1]) == wanted
    path.with_suffix(".json").write_text("{}")
    assert normalisation_of(path, images) == wanted


def test_a_folder_in_which_nothing_can_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        RunError, match=r"cannot write images to .*; set the variable FEDACTIVE_CACHE to a folder"
    ):
        make(tmp_path / "file" / "train.pixels", Decoder())


MEMORY = """
import sys, threading, time
from pathlib import Path

import torch

from fedactive.client import infer_samples
from fedactive.data import pixel_map
from fedactive.data.loader import load
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated import inference
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import Classifier, ModelSpec, register
from fedactive.models.classifier import draw_defaults

@register
class Pooling(Classifier):
    name, summary, paper = "pooling", "-", "-"

    def __init__(self, input_shape, classes):
        super().__init__()
        self.head = torch.nn.Linear(input_shape[0], classes)

    def initialise(self, generator):
        draw_defaults(self, generator)

    def embed(self, images):
        return images.mean((2, 3))

def private():
    "Megabytes of the process's own; mapped pages of files are not, which the system drops at will."
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1024

def watch():
    while True:
        peak[0] = max(peak[0], private())
        time.sleep(0.002)

torch.set_num_threads(1)
pixel_map.PART_BYTES = inference.CHUNK = 2**22
peak = [private()]
base = peak[0]
threading.Thread(target=watch, daemon=True).start()
data = load(sys.argv[1], Path("."), image_size=256)
spec, samples = ModelSpec("pooling", data.input_shape, 2), torch.arange(len(data.train_labels))
engine = SequentialEngine(spec, data, Recipe(batch_size=4, augment="flip"), torch.device("cpu"))
start = spec.initial_weights(torch.Generator().manual_seed(0))
job = LocalJob(start, samples, data.train_labels, 1, (0.1,) * -(-len(samples) // 4), 0, stop_accuracy=0.0)
engine.train([job])
infer_samples(engine, start, samples)
engine.evaluate(start)
print(round(data.train_inputs.nbytes / 2**20), round(peak[0] - base))
"""


def test_images_need_not_fit_in_memory(tmp_path: Path):
    """100 MB of pixels are decoded, trained on and evaluated with a fraction of that."""
    folder = write_folder(tmp_path / "many", "train/ant", "train/bee", each=300)
    write_folder(folder, "test/ant", "test/bee", each=2)
    environment = os.environ | {"FEDACTIVE_CACHE": str(tmp_path / "cache")}
    # What is freed goes back to the system at once, so that what is counted is what is in use.
    environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(folder)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    pixels, used = map(int, done.stdout.split())
    assert pixels == 112
    assert used < 40

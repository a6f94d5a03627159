"""Downloads over real HTTP from a server on this machine: all or nothing, whatever happens on the way."""

from __future__ import annotations

import io
import resource
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from fedactive.data.catalog import DATASETS, OfficialFile
from fedactive.data.downloader import download
from fedactive.data.loader import load
from fedactive.errors import ConfigurationError, DataError, UserError
from support import builders


class Server(ThreadingHTTPServer):
    """Serves `files` by path; those in `broken` stop half-way, those in `stuck` wait there until released."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.broken: set[str] = set()
        self.stuck: set[str] = set()
        self.half_sent = threading.Event()
        self.released = threading.Event()
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        self.server.asked.append(name)
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        half = len(content) // 2
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:half])
        if name in self.server.stuck:
            self.server.half_sent.set()
            self.server.released.wait(30)
        elif name not in self.server.broken:
            self.wfile.write(content[half:])

    def log_message(self, format: str, *given: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def svhn(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server holds a small SVHN, and the catalogue its addresses and checksums."""
    for split, count in (("train", 60), ("test", 2)):
        path = tmp_path / f"{split}_32x32.mat"
        builders.write_svhn(path, builders.images(count, 3, 32, 32), builders.labels(count))
        server.files[path.name] = path.read_bytes()
        path.unlink()
    card = DATASETS["svhn"]
    files = tuple(
        OfficialFile(name, builders.checksum(content), f"{server.url}/{name}")
        for name, content in server.files.items()
    )
    monkeypatch.setitem(DATASETS, "svhn", replace(card, layouts=(replace(card.layouts[0], files=files),)))
    return server


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_official_files_arrive_and_load_without_a_warning(
    svhn: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    folder = tmp_path / "new" / "data"
    assert "svhn is now in" in download("svhn", folder)
    assert capfd.readouterr() == ("", "")  # without a progress bar, nothing is printed
    assert everything_in(folder) == ["test_32x32.mat", "train_32x32.mat"]
    assert len(load("svhn", folder).train_inputs) == 60


def test_what_is_there_already_is_not_fetched_again(svhn: Server, tmp_path: Path):
    download("svhn", tmp_path)
    svhn.asked.clear()
    assert "already" in download("svhn", tmp_path)
    assert svhn.asked == []


def test_only_the_file_that_is_not_official_is_replaced(svhn: Server, tmp_path: Path):
    download("svhn", tmp_path)
    svhn.asked.clear()
    (tmp_path / "test_32x32.mat").write_bytes(b"damaged")
    download("svhn", tmp_path)
    assert svhn.asked == ["test_32x32.mat"]
    assert len(load("svhn", tmp_path).test_inputs) == 2


def test_a_body_that_stops_half_way(svhn: Server, tmp_path: Path):
    svhn.broken.add("test_32x32.mat")
    with pytest.raises(DataError, match=f"svhn could not be downloaded from {svhn.url}/.*IncompleteRead"):
        download("svhn", tmp_path)
    assert everything_in(tmp_path) == []


def test_a_wrong_checksum(svhn: Server, tmp_path: Path):
    svhn.files["train_32x32.mat"] += b"more"
    with pytest.raises(
        DataError, match=f"{svhn.url}/train_32x32.mat does not have the official checksum md5:"
    ):
        download("svhn", tmp_path)
    assert everything_in(tmp_path) == []


def test_a_file_that_is_gone(svhn: Server, tmp_path: Path):
    del svhn.files["test_32x32.mat"]
    with pytest.raises(DataError, match=f"{svhn.url}/.*404"):
        download("svhn", tmp_path)
    assert everything_in(tmp_path) == []


def test_a_server_that_is_gone(tmp_path: Path, svhn: Server, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as free:  # bound but not listening: every connection is refused
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/train_32x32.mat"
        card = DATASETS["svhn"]
        files = tuple(replace(file, url=url) for file in card.layouts[0].files)
        monkeypatch.setitem(DATASETS, "svhn", replace(card, layouts=(replace(card.layouts[0], files=files),)))
        with pytest.raises(DataError, match=rf"{url} to {tmp_path}: \[Errno \d+\] Connection refused$"):
            download("svhn", tmp_path)
    assert everything_in(tmp_path) == []


def test_a_folder_that_cannot_be_written(svhn: Server, tmp_path: Path):
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=f"{svhn.url}/train_32x32.mat to .*/data: .*exists"):
        download("svhn", tmp_path / "data")
    with pytest.raises(DataError, match=r"/data/below: .*[Nn]ot a directory"):
        download("svhn", tmp_path / "data" / "below")


def test_a_disk_without_room(svhn: Server, tmp_path: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(svhn.files["train_32x32.mat"]) // 2, hard))
    try:
        with pytest.raises(DataError, match="File too large"):
            download("svhn", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert everything_in(tmp_path) == []


def test_an_interruption_leaves_nothing(svhn: Server, tmp_path: Path):
    class Impatient(Progress):
        def advance(self, *given: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download("svhn", tmp_path, Impatient(console=Console(file=io.StringIO())))
    assert everything_in(tmp_path) == []


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from fedactive.data.catalog import DATASETS
from fedactive.data.downloader import download

card = DATASETS["octmnist"]
file = replace(card.layouts[0].files[0], url=sys.argv[1], checksum=sys.argv[2])
DATASETS["octmnist"] = replace(card, layouts=(replace(card.layouts[0], files=(file,)),))
download("octmnist", Path(sys.argv[3]))
"""


def test_a_kill_leaves_no_dataset_and_the_next_download_works(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    content = io.BytesIO()
    np.savez(content, **builders.medmnist_arrays(count=100, channels=1, classes=4))
    server.files["octmnist.npz"] = content.getvalue()
    server.stuck.add("octmnist.npz")
    url, checksum = f"{server.url}/octmnist.npz", builders.checksum(content.getvalue())

    process = subprocess.Popen([sys.executable, "-c", KILLED, url, checksum, str(tmp_path)])
    assert server.half_sent.wait(30)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "octmnist.npz").exists()
    with pytest.raises(DataError, match="not found"):
        load("octmnist", tmp_path)

    server.stuck.clear()
    card = DATASETS["octmnist"]
    files = (OfficialFile("octmnist.npz", checksum, url),)
    monkeypatch.setitem(DATASETS, "octmnist", replace(card, layouts=(replace(card.layouts[0], files=files),)))
    download("octmnist", tmp_path)
    assert len(load("octmnist", tmp_path).train_inputs) == 100


# The archive of CIFAR-10 ---------------------------------------------------------------------------------


def serve_cifar10(
    server: Server, source: Path, monkeypatch: pytest.MonkeyPatch, leave_out: str = "", corrupt: str = ""
) -> None:
    """A small CIFAR-10 archive with two members that no one asked for."""
    builders.write_cifar10_binary(source)
    card = DATASETS["cifar10"]
    content = io.BytesIO()
    files = []
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name in ("cifar-10-batches-bin/readme.html", "../escaped.bin"):
            archive.addfile(tarfile.TarInfo(name))
        for file in card.layouts[0].files:
            data = (source / "cifar-10-batches-bin" / file.name).read_bytes()
            files.append(replace(file, checksum=builders.checksum(data, "sha256")))
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{file.name}")
            member.size = len(data)
            if file.name != leave_out:
                archive.addfile(member, io.BytesIO(data[::-1] if file.name == corrupt else data))
    server.files["cifar.tar.gz"] = content.getvalue()
    binary = replace(card.layouts[0], files=tuple(files))
    archive_file = OfficialFile(
        "cifar.tar.gz", builders.checksum(content.getvalue()), f"{server.url}/cifar.tar.gz"
    )
    monkeypatch.setitem(
        DATASETS, "cifar10", replace(card, archive=archive_file, layouts=(binary, *card.layouts[1:]))
    )


def test_an_archive_gives_its_expected_members_and_nothing_else(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    serve_cifar10(server, tmp_path / "source", monkeypatch)
    folder = tmp_path / "outer" / "data"
    download("cifar10", folder)
    names = [f"cifar-10-batches-bin/{file.name}" for file in DATASETS["cifar10"].layouts[0].files]
    assert everything_in(folder) == sorted(["cifar-10-batches-bin", *names])
    assert everything_in(tmp_path / "outer")[0] == "data"
    assert len(load("cifar10", folder).train_inputs) == 20


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"leave_out": "test_batch.bin"}, "does not hold the file cifar-10-batches-bin/test_batch.bin"),
        (
            {"corrupt": "test_batch.bin"},
            "test_batch.bin of cifar.tar.gz does not have the official checksum sha256:",
        ),
    ],
)
def test_an_archive_that_is_not_what_it_should_be(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, str], reason: str
):
    serve_cifar10(server, tmp_path / "source", monkeypatch, **fault)
    with pytest.raises(DataError, match=reason):
        download("cifar10", tmp_path / "data")
    assert everything_in(tmp_path / "data") == []


# Without the network -------------------------------------------------------------------------------------


def test_digits_have_nothing_to_download(tmp_path: Path):
    assert "nothing to download" in download("digits", tmp_path / "untouched")
    assert not (tmp_path / "untouched").exists()


def test_what_cannot_be_loaded_is_not_downloaded(tmp_path: Path):
    with pytest.raises(DataError, match="multi-label"):
        download("chestmnist", tmp_path)
    with pytest.raises(ConfigurationError, match="did you mean 'svhn'"):
        download("shvn", tmp_path)


def test_without_pooch_the_reason_is_clear(svhn: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(UserError, match="pooch"):
        download("svhn", tmp_path)


def test_the_progress_bar_ends_full(svhn: Server, tmp_path: Path):
    with Progress(console=Console(file=io.StringIO())) as progress:
        download("svhn", tmp_path, progress)
    assert [task.description for task in progress.tasks] == ["train_32x32.mat", "test_32x32.mat"]
    for task in progress.tasks:
        assert task.completed == task.total == len(svhn.files[task.description])
        assert task.stop_time is not None

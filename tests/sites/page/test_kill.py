"""kill -9 of a real page process in the middle of labelling loses no confirmed label."""

import os
import signal
import subprocess
import sys
import threading
import time

import httpx

from fedactive.sites.labels.store import LabelStore
from support.small_images import make_images

PAGE = """
import sys
from pathlib import Path
from fedactive.sites.site.read_images import read_images
from fedactive.sites.page.app import create_app
from fedactive.sites.page.server import PageServer
from fedactive.sites.labels.store import LabelStore
folder = Path(sys.argv[1])
app = create_app(LabelStore(folder / "labels.sqlite"), read_images(folder / "images.npz", (3, 24, 24)),
                 ["a", "b", "c"], secret=b"kept", title="x")
server = PageServer(app, "127.0.0.1", int(sys.argv[2]))
print(server.address, flush=True)
server.run()
"""


def start(folder, port=0):
    process = subprocess.Popen(
        [sys.executable, "-c", PAGE, str(folder), str(port)], stdout=subprocess.PIPE, text=True
    )
    return process, process.stdout.readline().strip()


def test_no_confirmed_label_is_lost(tmp_path):
    make_images(tmp_path / "images.npz")
    store = LabelStore(tmp_path / "labels.sqlite")
    store.rounds.open("run", 1, range(5000), "logo", None)
    tokens = [store.annotators.add(f"person {k}") for k in range(3)]
    store.close()
    process, address = start(tmp_path)
    confirmed: list[dict[int, int]] = [{} for _ in tokens]
    sessions = [httpx.Client(base_url=address) for _ in tokens]

    def work(k):
        client = sessions[k]
        csrf = client.post("/api/sign-in", json={"token": tokens[k]}).json()["csrf"]
        client.headers["X-CSRF-Token"] = csrf
        try:
            result = client.get("/api/next").json()
            while result["images"]:
                sample = result["images"][0]["sample"]
                result = client.post("/api/answer", json={"sample": sample, "label": k}).json()
                confirmed[k][sample] = k
        except httpx.TransportError:
            pass  # killed

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(tokens))]
    for thread in threads:
        thread.start()
    while sum(map(len, confirmed)) < 10:
        time.sleep(0.005)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    process.wait()
    process.stdout.close()

    again, address = start(tmp_path, int(address.rpartition(":")[2]))
    try:
        # People are still signed in, and everything they were told was saved is there.
        after = sessions[0].get("/api/next").raise_for_status().json()
        store = LabelStore(tmp_path / "labels.sqlite")
        labels = store.labels()
        told = {sample: label for one in confirmed for sample, label in one.items()}
        assert len(told) >= 10
        assert told.items() <= labels.items()
        assert len(labels) - len(told) <= len(tokens)  # at most one answer each was saved but not told
        assert after["counts"]["labelled"] == len(labels)
        assert store.database.one("PRAGMA integrity_check")[0] == "ok"
        store.rounds.close("run", 1)
        assert store.labels_at_close("run", 1) == labels
        store.close()
    finally:
        again.kill()
        again.wait()
        again.stdout.close()
        for client in sessions:
            client.close()

"""What coordinator and site say while they serve."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.flower.processes import free_port
from fedactive.sites.rehearsal import end, wait_for
from support.folders import make_site
from support.traps import set_traps


def serve(cwd, said, *arguments):
    with said.open("wb") as output:
        command = [sys.executable, "-P", "-m", "fedactive", *map(str, arguments)]  # as the script `fedactive`
        return subprocess.Popen(command, cwd=cwd, stdout=output, stderr=subprocess.STDOUT)


def test_every_line_is_dated_and_nothing_lying_around_is_imported(tmp_path):
    imported = set_traps(tmp_path / "traps")
    coordinator = Coordinator.init(tmp_path / "coordinator", f"localhost:{free_port()}")
    site = make_site(tmp_path)
    site.join(coordinator.folder / "invitation.toml")
    said = [tmp_path / "coordinator.log", tmp_path / "site.log"]
    running = [
        serve(imported.parent, said[0], "coordinator", "serve", coordinator.folder),
        serve(imported.parent, said[1], "site", "serve", site.folder, "--port", 0, "--device", "cpu"),
    ]
    try:
        for log, words in zip(said, ("serving sites at", "has not admitted this site"), strict=True):
            wait_for(lambda log=log, words=words: words in log.read_text(), words)
    finally:
        end(running)
    assert not imported.exists(), imported.read_text()
    for log in said:
        for line in log.read_text().splitlines():
            time, _, words = line.partition(" ")
            assert datetime.fromisoformat(time).utcoffset() is not None
            assert words
    for folder in (coordinator.folder, site.folder):
        flowers = re.findall(r"^INFO .*$", (folder / "flower.log").read_text(), re.MULTILINE)
        assert flowers
        assert all(re.match(r"INFO \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}:", line) for line in flowers)

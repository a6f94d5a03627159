"""What must be true before a site is served, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from fedactive.errors import ConfigurationError, UserError
from fedactive.sites.site.serve import serve


def test_a_site_that_has_not_joined_says_so(site):
    with pytest.raises(UserError, match="has not joined"):
        serve(site, "127.0.0.1", 0, None, "cpu", guess=False)


def test_a_device_that_does_not_exist_is_told_before_anything_is_served(coordinator, site):
    site.join(coordinator.folder / "invitation.toml")
    with pytest.raises(ConfigurationError, match="device: 'tpu' was given"):
        serve(site, "127.0.0.1", 0, None, "tpu", guess=False)


def test_a_site_is_served_once(coordinator, site):
    site.join(coordinator.folder / "invitation.toml")
    with closing(site.hold()), pytest.raises(UserError, match="north is being served already"):
        serve(site, "127.0.0.1", 0, None, "cpu", guess=False)
    site.hold().close()  # whoever held it is gone


def test_a_signal_ends_a_site_in_good_order_also_while_it_trains(tmp_path):
    program = """
import signal, sys, threading, time, torch
from pathlib import Path
from fedactive.cli import site as commands
from fedactive.sites.site import serve
from fedactive.sites.site.folder import Site

training = threading.Event()

def train():
    layer, images = torch.nn.Conv2d(1, 8, 3), torch.zeros(8, 1, 16, 16)
    while True:
        layer(images).sum().backward()
        training.set()

def serve_and_train(*_):
    threading.Thread(target=train, daemon=True).start()
    training.wait()
    signal.raise_signal(signal.SIGTERM)

Site.open = lambda folder: None
serve.serve = serve_and_train
commands.serve(Path("north"))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")

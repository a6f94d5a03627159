"""What a run was made with: versions, hardware and the revision of the source."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from fedactive import __version__

PACKAGES = ("torch", "numpy", "scipy", "pandas", "pyarrow")


def describe_environment() -> dict[str, object]:
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "fedactive": __version__,
        "revision": source_revision(),
        "python": platform.python_version(),
        "packages": package_versions(),
        "system": platform.platform(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


# A process has one revision and one version of each package, those that it has loaded, for all its runs.


@cache
def package_versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


@cache
def source_revision() -> str | None:
    """Return the git revision of a checkout, with a `+` if there are uncommitted changes; else None."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # An installed package may lie inside somebody else's repository: only ours knows this file.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", str(here)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

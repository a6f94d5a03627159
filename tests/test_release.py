"""What belongs to a release agrees: versions, the files of the wheel, the pins of set-up."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from fedactive import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PINS = dict(
    re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")


def test_every_file_names_the_same_version():
    assert PROJECT["project"]["dynamic"] == ["version"]  # it is written in the package alone
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    version, date = re.search(r"^## (\d[\d.]*) \((\S+)\)$", CHANGELOG, re.MULTILINE).groups()
    assert (version, date) == (__version__, citation["date-released"].isoformat())


def test_the_wheel_has_every_file_of_the_package(tools, tmp_path):
    """Templates, suites, the paper's numbers and pages among them."""
    from release import files_in, files_in_source

    program = f"import hatchling.build; print(hatchling.build.build_wheel({str(tmp_path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wheel = tmp_path / done.stdout.strip()
    assert wheel.name == f"fedactive-{__version__}-py3-none-any.whl"
    inside = files_in(wheel)
    assert inside == files_in_source()
    for name in ("py.typed", "cli/templates/strategy.py.txt", "benchmark/suites/smoke.toml", "paper/emd.csv"):
        assert f"fedactive/{name}" in inside


def test_what_is_required_allows_what_is_pinned():
    project = PROJECT["project"]
    required = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    required += [line for extra in project["optional-dependencies"].values() for line in extra]
    names = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PINS.items()}
    for line in required:
        requirement = Requirement(line)
        assert requirement.specifier.contains(names[requirement.name.lower()]), line


SAID = """\
Collecting torch==2.13.0
  Downloading torch-2.13.0-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)
Collecting numpy>=1.26
Downloading https://files.example/torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (526.6 MB)
Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)
Installing collected packages: numpy, torch
"""


def test_set_up_says_in_a_few_lines_what_takes_long(tools):
    from install import Watch

    watch = Watch()
    watch.follow(SAID.splitlines(keepends=True))
    assert watch.packages == 2
    assert watch.steps == ["downloading torch (527 MB)", "unpacking 2 packages"]
    watch.follow(["ERROR: No matching distribution found\n"])
    assert watch.why_it_failed() == "ERROR: No matching distribution found"


def test_set_up_fails_with_the_reason(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "install.py", tmp_path / "nothing"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "nothing" in done.stderr
    assert done.stdout == ""

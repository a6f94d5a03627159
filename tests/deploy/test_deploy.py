"""The files of deploy/: their syntax, and that they give commands that exist."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from fedactive.cli.coordinator import app as coordinator
from fedactive.cli.site import app as site

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
APPS = {"coordinator": coordinator, "site": site}


def check_command(words: list[str]) -> None:
    """Let typer parse it, options and all."""
    group = typer.main.get_command(APPS[words[0]])
    command = group.commands[words[1]]  # type: ignore[attr-defined]
    given = command.make_context(words[1], words[2:], resilient_parsing=False).params
    assert given["monitor"]


def unit(file: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(file)
    return parser


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_a_unit_starts_a_command_that_exists_again_and_again(file):
    service = unit(file)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/fedactive/bin/fedactive"
    check_command(words)
    assert (service["Restart"], service["UMask"], service["KillMode"]) == ("always", "0077", "mixed")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_systemd_understands_a_unit(file, tmp_path):
    here = tmp_path / file.name  # the program is elsewhere on this machine
    here.write_text(file.read_text().replace("/opt/fedactive/bin/fedactive", shutil.which("true") or ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if file.name in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_services_of_compose_start_commands_that_exist():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services.keys() == {"coordinator", "site"}
    for service in services.values():
        check_command(service["command"])
        assert service["cap_drop"] == ["ALL"]
        compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="docker-compose is not installed")
def test_compose_understands_its_file():
    command = ["docker-compose", "-f", DEPLOY / "compose.yaml", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def extras(lines: list[str]) -> set[str]:
    (line,) = (line for line in lines if "pip install" in line)
    assert "--constraint constraints.txt" in line
    return set(line.split(".[")[1].split("]")[0].split(","))


@pytest.mark.parametrize("name", ["Containerfile", "Containerfile.laboratory"])
def test_a_container_copies_and_installs_what_there_is(name):
    lines = (DEPLOY / name).read_text().splitlines()
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert extras(lines) <= set(project["optional-dependencies"])
    for line in lines:
        if line.startswith("COPY "):
            for name in line.split()[1:-1]:
                assert (DEPLOY.parent / name).exists(), name
    assert lines[-2] == 'ENTRYPOINT ["fedactive"]'
    assert "USER fedactive" in lines


def test_the_documentation_names_every_metric():
    text = (DEPLOY.parent / "docs" / "OPERATIONS.md").read_text()
    package = DEPLOY.parent / "src" / "fedactive" / "sites"
    code = "".join(
        (package / name).read_text() for name in ("coordinator/metrics.py", "site/metrics.py", "monitor.py")
    )
    names = {
        word for word in code.replace('"', " ").replace(",", " ").split() if word.startswith("fedactive_")
    }
    assert len(names) > 15
    assert [name for name in sorted(names) if name not in text] == []

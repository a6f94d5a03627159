"""Build sdist and wheel into dist/, and try the wheel as a user would: `make release`.

The wheel is built from the sdist, and installed into a fresh environment outside the repository. There this
runs the help of every command, mypy on a user's program, the demo, and a coordinator with three sites. Every
extra is resolved with constraints.txt. Anything that fails stops it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]
LIST_COMMANDS = """
import typer
from fedactive.cli.app import app

def walk(command, path):
    print(*path)
    for name, part in getattr(command, "commands", {}).items():
        walk(part, [*path, name])

walk(typer.main.get_command(app), ["fedactive"])
"""


class FailedError(Exception):
    """What stops the release, in a sentence."""


def say(line: str) -> None:
    print(f"release: {line}", flush=True)


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command, which may see nothing of the repository, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise FailedError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(dist: Path) -> Path:
    """Build the sdist, and the wheel from it; return the wheel."""
    shutil.rmtree(dist, ignore_errors=True)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT], ROOT)
    (wheel,) = dist.glob("*.whl")
    return wheel


def files_in(wheel: Path) -> dict[str, bytes]:
    """Return the files of the package in a wheel, by their path below src/."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith("fedactive/")}


def files_in_source() -> dict[str, bytes]:
    source = ROOT / "src"
    found = [path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path.relative_to(source).as_posix(): path.read_bytes() for path in found}


def extras_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode()).get_all("Provides-Extra", [])


def try_wheel(wheel: Path, folder: Path) -> None:
    run([sys.executable, "-m", "venv", folder / "env"], folder)
    python, fedactive = folder / "env/bin/python", folder / "env/bin/fedactive"
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", *CONSTRAINTS]
    say("installing the wheel alone (minutes)")
    run([*pip, wheel], folder)
    say(run([fedactive, "--version"], folder).strip())

    commands = [line.split()[1:] for line in run([python, "-c", LIST_COMMANDS], folder).splitlines()]
    for words in commands:
        if "Usage: " not in run([fedactive, *words, "--help"], folder):
            raise FailedError(f"fedactive {' '.join(words)} --help shows no usage")
    say(f"--help of {len(commands)} commands works")

    run([*pip, "pandas-stubs"], folder)  # as mypy --strict would ask of anybody who names a table's type
    shutil.copy(ROOT / "tools" / "typed.py", folder / "mine.py")
    mypy: list[str | Path] = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    run([*mypy, "--cache-dir", ROOT / ".mypy_cache" / "outside", "mine.py"], folder)
    say("mypy sees the types of the installed package")

    run([fedactive, "demo"], folder)
    say("fedactive demo works")

    for extra in extras_of(wheel):
        run([*pip, "--dry-run", f"{wheel}[{extra}]"], folder)
    say(f"extras resolve: {', '.join(extras_of(wheel))}")

    run([*pip, f"{wheel}[sites]"], folder)
    run([python, "-m", "fedactive.cli.field_demo"], folder)
    say("a coordinator and three sites work")


def main() -> None:
    begun = time.monotonic()
    try:
        wheel = build(ROOT / "dist")
        if files_in(wheel) != files_in_source():
            raise FailedError(f"{wheel.name} and src/ do not have the same files")
        say(f"{wheel.name} has what src/ has")
        with tempfile.TemporaryDirectory(prefix="fedactive-release-") as folder:
            try_wheel(wheel, Path(folder))
    except FailedError as error:
        sys.exit(f"release: {error}")
    made = sorted(path.name for path in wheel.parent.iterdir())
    say(f"done in {time.monotonic() - begun:.0f} s: {', '.join(made)}")


if __name__ == "__main__":
    main()

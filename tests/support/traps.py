"""Files in a folder that bear the names of modules, and tell when they are imported."""

from __future__ import annotations

from pathlib import Path

NAMES = ("flwr", "json", "logging", "numpy", "pickle", "random", "torch", "traceback", "typer")


def set_traps(folder: Path) -> Path:
    """Put them there; return the file that lists those which were imported, if any was."""
    folder.mkdir()
    imported = folder / "imported"
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(imported)!r}, 'a').write('{name} ')\nraise ImportError('a trap')"
        )
    return imported

"""Make the tutorials' pictures and tables anew: give the commands on their pages, and keep what they make.

A picture is shown as usual; a table stands between `<!-- file: NAME.md -->` and `<!-- end -->`.

python docs/hooks/pictures.py
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TUTORIALS = Path(__file__).parents[1] / "tutorials"


def pictures_of(page: Path) -> list[str]:
    return re.findall(r"!\[[^\]]*\]\(([\w.-]+)\)", page.read_text(encoding="utf-8"))


def commands_of(page: Path) -> list[list[str]]:
    """List the commands of fedactive on a page, as words."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = "\n".join(text for language, text in blocks if not language).replace("\\\n", " ").splitlines()
    words = (shlex.split(line, comments=True) for line in lines)
    return [arguments for program, *arguments in filter(None, words) if program == "fedactive"]


def main() -> None:
    for page in sorted(TUTORIALS.glob("*.md")):
        if not (pictures := pictures_of(page)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for arguments in commands_of(page):
                print("fedactive", shlex.join(arguments), flush=True)
                subprocess.run([sys.executable, "-m", "fedactive", *arguments], cwd=folder, check=True)
            for picture in pictures:
                shutil.copy(Path(folder, picture), page.parent / picture)
            page.write_text(with_tables(page.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")


def with_tables(text: str, folder: Path) -> str:
    """Return a page with the tables that were made in this folder."""

    def made(place: re.Match[str]) -> str:
        return f"{place[1]}\n{(folder / place[2]).read_text(encoding='utf-8').strip()}\n{place[3]}"

    return re.sub(r"(<!-- file: ([\w.-]+) -->)\n.*?\n(<!-- end -->)", made, text, flags=re.DOTALL)


if __name__ == "__main__":
    main()

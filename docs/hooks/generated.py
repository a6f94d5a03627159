"""Pages of the reference that the program itself writes: they are made when the site is built.

What the repository has of such a page is its beginning.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from choices import choices_page
from commands import command_pages
from configuration import configuration_page

DOCS = Path(__file__).parents[1]


def pages() -> dict[str, str]:
    """Return the text of each page by its place."""
    written = {
        **command_pages("reference/commands"),
        "reference/configuration.md": configuration_page(),
        "reference/choices.md": choices_page(),
    }
    return {place: f"{beginning(place)}\n{text}" for place, text in written.items()}


def beginning(place: str) -> str:
    file = DOCS / place
    return file.read_text(encoding="utf-8") if file.exists() else ""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for place, text in pages().items():
        if there := files.get_file_from_path(place):
            files.remove(there)
        files.append(File.generated(config, place, content=text))
    return files

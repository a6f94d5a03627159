"""Pages of the reference that the program itself writes: they are made when the site is built."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from choices import choices_page
from commands import command_pages
from configuration import configuration_page


def pages() -> dict[str, str]:
    """Return the text of each page by its place."""
    return {
        **command_pages("reference/commands"),
        "reference/configuration.md": configuration_page(),
        "reference/choices.md": choices_page(),
    }


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for place, text in pages().items():
        files.append(File.generated(config, place, content=text))
    return files

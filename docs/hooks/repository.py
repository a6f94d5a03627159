"""Links that lead out of docs/: on the site they lead to pages that show what the repository has there.

In the repository a document links to `../deploy/compose.yaml`, and that is a file. Here it becomes a page.
The README is the site's first page, and `SECURITY.md` and `CHANGELOG.md` are pages as they are.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCUMENTS = {"README.md": "index.md", "SECURITY.md": "SECURITY.md", "CHANGELOG.md": "CHANGELOG.md"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {".yaml": "yaml", ".toml": "toml", ".service": "ini", ".py": "python"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents beside docs/, and a page for each file or folder that a document links to."""
    for name, page in DOCUMENTS.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    targets = {target for page in files.documentation_pages() for target in targets_of(page)}
    outside = {target for target in targets if not target.startswith("docs/") and target not in DOCUMENTS}
    for target in sorted(outside | set(inside(outside))):
        place, text = page_of(target), shown(ROOT / target)
        files.append(File.generated(config, place, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to the repository's files into links to their pages; name the language of commands."""
    here = posixpath.dirname(page.file.src_uri)

    def to_page(link: re.Match[str]) -> str:
        target = target_of(page.file, link[1])
        return link[1] if target is None else posixpath.relpath(page_of(target), here or ".")

    def with_language(block: re.Match[str]) -> str:
        return f"```{block[1] or 'bash'}\n{block[2]}```"

    return FENCE.sub(with_language, LINK.sub(to_page, markdown))


def targets_of(page: File) -> Iterable[str]:
    """List what a page links to, as paths in the repository."""
    return filter(None, (target_of(page, link) for link in LINK.findall(page.content_string)))


def target_of(page: File, link: str) -> str | None:
    """Return the path in the repository of what a page links to; None if nothing is there."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(written_in(page)), link))
    return path if (ROOT / path).exists() else None


def written_in(page: File) -> str:
    """Return where a page was written, as a path in the repository."""
    for name, uri in DOCUMENTS.items():
        if page.src_uri == uri:
            return name
    outside = page.src_uri.startswith("repository/")
    return page.src_uri.removeprefix("repository/") if outside else f"docs/{page.src_uri}"


def page_of(target: str) -> str:
    """Return the page of a file of the repository."""
    if target in DOCUMENTS:
        return DOCUMENTS[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return f"repository/{target}" if target.endswith(".md") else f"repository/{target}.md"


def inside(targets: Iterable[str]) -> Iterable[str]:
    """List the files of the folders among these."""
    for target in targets:
        if (ROOT / target).is_dir():
            yield from (f"{target}/{entry.name}" for entry in (ROOT / target).iterdir() if entry.is_file())


def shown(path: Path) -> str:
    """Write the page that shows a file, or lists a folder."""
    name = os.fspath(path.relative_to(ROOT))
    if path.is_dir():
        entries = sorted(entry.name for entry in path.iterdir() if entry.is_file())
        return f"# {name}\n\n" + "".join(f"- [{entry}]({path.name}/{entry}.md)\n" for entry in entries)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"

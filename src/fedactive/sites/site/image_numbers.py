"""The number of each image of a site, which it has for ever: images.json in the site's folder.

A number belongs to what a picture shows. A file that is moved or renamed keeps it, a picture that comes back
has it again, and no other picture ever gets it. Those of the first start are numbered by name, later ones as
they come.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedactive.errors import DataError
from fedactive.files import RESTORE

FILE = "images.json"


@dataclass
class ImageNumbers:
    """Names and hashes by number; the names are the latest."""

    began: int = 0  # how many there were at the first start
    names: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> ImageNumbers:
        """Read those of a site's folder; none before the first start."""
        file = folder / FILE
        if not file.exists():
            return cls()
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            images = content["images"]
            if isinstance(images, dict):  # of a version that let no image come or go
                return cls(len(images), list(images), list(images.values()))
            return cls(content["began"], [name for name, _ in images], [digest for _, digest in images])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            raise DataError(f"{file} is damaged; {RESTORE}") from None

    def to_plain(self) -> dict[str, Any]:
        return {"began": self.began, "images": list(zip(self.names, self.digests, strict=True))}

    def recall(self, known: Mapping[int, str]) -> None:
        """Add those that only the label store knows, by hash: it may be restored into a new folder.

        DataError if the two do not agree: then labels would come to belong to other pictures.
        """
        for number, digest in sorted(known.items()):
            if number == len(self.digests):
                self.names.append("")
                self.digests.append(digest)
            elif number > len(self.digests) or digest != self.digests[number]:
                raise DataError(
                    f"the label store and {FILE} are not of the same site: image {number} is another picture "
                    "in each; restore both from the same time"
                )
        self.began = self.began or len(self.digests)

    def add(self, names: Sequence[str], digests: Sequence[str]) -> list[int]:
        """Return the numbers of these pictures; new ones get the next."""
        numbers = {digest: number for number, digest in enumerate(self.digests)}
        for name, digest in zip(names, digests, strict=True):
            if digest in numbers:
                self.names[numbers[digest]] = name
            else:
                numbers[digest] = len(self.digests)
                self.names.append(name)
                self.digests.append(digest)
        self.began = self.began or len(self.digests)
        return [numbers[digest] for digest in digests]

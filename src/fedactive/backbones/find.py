"""Find a backbone by its name, or in a file of the user's own; and say by a hash what it is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fedactive.backbones.backbone import Backbone
from fedactive.data.own_file import DIGITS, short_digest
from fedactive.errors import ConfigurationError, unknown_name
from fedactive.files import expand_home
from fedactive.registry import BACKBONES

# The kind of a file, by the end of its name.
FILES = {".onnx": "onnx", ".pt": "torchscript", ".pth": "torchscript", ".torchscript": "torchscript"}
KINDS_OF_FILES = set(FILES.values())
OR_A_FILE = ", or the path of an .onnx file or of a TorchScript file (.pt)"


def kind_of(backbone: str) -> str:
    """Return the name under which the backbone, or files like this one, are registered."""
    if backbone in BACKBONES and backbone not in KINDS_OF_FILES:
        return backbone
    kind = FILES.get(Path(backbone).suffix.lower())
    if kind is None:
        raise unknown_name("backbone", backbone, set(BACKBONES) - KINDS_OF_FILES, OR_A_FILE)
    return kind


def is_file(backbone: str) -> bool:
    return kind_of(backbone) in KINDS_OF_FILES


def find_backbone(backbone: str, options: str = "") -> Backbone:
    """Make the backbone with these options; a file of its name must exist."""
    file = expand_home(backbone)
    if is_file(backbone) and not file.is_file():
        raise ConfigurationError("backbone", backbone, "the path of a file that exists")
    made: Backbone = BACKBONES.make(kind_of(backbone), options, file=file)
    return made


def short_name(backbone: str) -> str:
    """Return the backbone's name as it counts for a run; for a file that is its stem."""
    if not backbone or not is_file(backbone):
        return backbone
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(backbone).stem).strip("-")


def content(backbone: Backbone) -> str:
    """Hash what decides the features: the files of weights, and the code of a plugin.

    Of a single file these are the first digits that `sha256sum` prints.
    """
    code = BACKBONES.file_of(backbone.name)
    digests = [short_digest(file) for file in (*backbone.files(), *([code] if code else []))]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:DIGITS]

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


def is_file(backbone: str) -> bool:
    return Path(backbone).suffix.lower() in FILES


def find_backbone(backbone: str, options: str = "") -> Backbone:
    """Make the backbone with these options; ConfigurationError if there is none of that name or path."""
    file = expand_home(backbone)
    if is_file(backbone):
        if not file.is_file():
            raise ConfigurationError("backbone", backbone, "the path of a file that exists")
        name = FILES[file.suffix.lower()]
    elif backbone in BACKBONES and backbone not in KINDS_OF_FILES:
        name = backbone
    else:
        raise unknown_name("backbone", backbone, set(BACKBONES) - KINDS_OF_FILES, OR_A_FILE)
    made: Backbone = BACKBONES.make(name, options, file=file)
    return made


def short_name(backbone: str) -> str:
    """Return the backbone's name as it counts for a run; for a file that is its stem."""
    if not is_file(backbone):
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

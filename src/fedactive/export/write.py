"""Export a run: encode the model, compare it, and only then write the file and its card."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from fedactive.export.card import model_card
from fedactive.export.formats import format_of
from fedactive.export.run_model import CPU, read_run_model
from fedactive.export.verify import verify
from fedactive.files import expand_home, write_output
from fedactive.progress import Callback


class Written(NamedTuple):
    summary: str
    card: Path


def write_model(run: Path, output: Path, progress: Callback, data_dir: Path | None = None) -> Written:
    form = format_of(output)  # before the work, which may take minutes
    model = read_run_model(expand_home(run), progress, data_dir)
    content = form.encode(model)
    predict, _ = form.decode(content, str(output), CPU)
    differences = verify(model, predict)
    card = output.with_name(f"{output.name}.md")
    text = model_card(model, output.name, hashlib.sha256(content).hexdigest(), differences)
    write_output(output, content)
    write_output(card, text.encode())
    d = model.description
    size = f"{len(content) / 1e6:.1f} MB" if len(content) >= 1e5 else f"{len(content) / 1e3:.1f} kB"
    compared = f"compared with the run's model on {len(model.samples)} samples"
    return Written(f"{size}, {d.wanted}, {len(d.classes)} classes; {compared}", card)

"""How to use an exported file, with fedactive or without: a part of its card."""

from __future__ import annotations

from pathlib import Path

from fedactive.export.description import Description
from fedactive.files import quote

WITHOUT_FEDACTIVE = {
    ".onnx": """import onnxruntime

session = onnxruntime.InferenceSession({file!r})
(probabilities,) = session.run(None, {{{input!r}: {input}}})""",
    ".pt": """import torch

probabilities = torch.jit.load({file!r})(torch.from_numpy({input}))""",
    ".safetensors": """import fedactive

table = fedactive.load_model({file!r}).predict({input})""",
}


def how_to_use(description: Description, file: str) -> str:
    d, ending = description, Path(file).suffix.lower()
    given = "images" if d.takes_images else "features"
    program = WITHOUT_FEDACTIVE[ending].format(file=file, input=given)
    source = "FOLDER" if d.takes_images else "FEATURES.npz"
    parts = [
        f"```\nfedactive predict {quote(file)} {source} -o predictions.csv\n```",
        f"or in Python{'' if ending == '.safetensors' else ', without fedactive'}:",
        f"```python\n{program}\n```",
        takes(d, ending),
        f"The probabilities (n, {len(d.classes)}) are in this order: {', '.join(d.classes)}.",
    ]
    return "\n\n".join(parts)


def takes(description: Description, ending: str) -> str:
    """Say what the input is; fedactive itself takes arrays as Pillow makes them."""
    d = description
    if not d.takes_images:
        return f"`features` are float32 (n, {d.input_shape[0]}), as they come: the file standardises them."
    channels, height, width = d.input_shape
    colours = "grey" if channels == 1 else "red, green, blue"
    last = "" if channels == 1 else f", {channels}"
    layout = f"(n, height, width{last})" if ending == ".safetensors" else f"(n, {channels}, height, width)"
    text = f"`images` are uint8 {layout} of any size, {colours}, from 0 to 255. "
    if d.margins:
        text += "Those that it was trained on got black margins to make them square"
        text += (
            ", as here. " if ending == ".safetensors" else ": do that first, as `fedactive predict` does. "
        )
    if d.window:
        level, wide = d.window
        text += f"Pictures of more than 8 bits were seen in the window of level {level:g} and width {wide:g}"
        text += (
            ", as `fedactive predict` sees them. " if ending == ".safetensors" else ": apply that before. "
        )
    return text + f"They are stretched to {width}x{height} pixels and normalised."

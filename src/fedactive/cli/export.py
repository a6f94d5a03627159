"""`fedactive export` and `predict`: a run's model as a file, and what it says of new images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedactive.cli.options import LABORATORY, Plugins, example, load_plugins
from fedactive.errors import ConfigurationError

app = typer.Typer()

MovedData = Annotated[
    Path | None, typer.Option(help="Look for the run's dataset in this folder, if it was moved.")
]


@app.command(rich_help_panel=LABORATORY, epilog=example("fedactive export runs/NAME -o model.onnx"))
def export(
    run: Annotated[Path, typer.Argument(help="Run folder, also a coordinator's.", metavar="RUN")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write this .onnx, .safetensors or .pt file.")
    ],
    data_dir: MovedData = None,
    plugin: Plugins = None,
) -> None:
    """Write the model of a run as one file, with a model card beside it.

    The file holds all that is done to an image, the backbone included: pixels in, probabilities out. It is
    compared with the model on test images before it is written.
    """
    load_plugins(plugin)
    from fedactive.export.write import write_model
    from fedactive.laboratory.progress import handle_interrupt, make_progress

    with handle_interrupt():
        written = write_model(run, output, make_progress(), data_dir)
    print(f"{output}: {written.summary}")
    print(f"{written.card}: what it was trained on, and how good it is")


@app.command(
    rich_help_panel=LABORATORY,
    epilog=example("fedactive predict model.onnx photographs -o predictions.csv"),
)
def predict(
    model: Annotated[Path, typer.Argument(help="Exported file, or run folder.", metavar="MODEL")],
    images: Annotated[
        list[Path], typer.Argument(help="Images, folders of them, or .npz files.", metavar="IMAGES...")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write this CSV file.")],
    device: Annotated[str, typer.Option(help="Where to compute: auto, cpu or cuda.")] = "auto",
    data_dir: MovedData = None,
    plugin: Plugins = None,
) -> None:
    """Predict the classes of new images: a row for each, with the probability of every class.

    Images that cannot be read are named and left out.
    """
    load_plugins(plugin)
    if output.suffix.lower() != ".csv":
        raise ConfigurationError("output", str(output), "the path of a .csv file")

    from rich.console import Console
    from rich.progress import Progress

    from fedactive.export.trained_model import load_model
    from fedactive.files import write_output
    from fedactive.laboratory.progress import handle_interrupt, make_progress

    console = Console(stderr=True)
    with handle_interrupt():
        loaded = load_model(model, data_dir=data_dir, device=device, progress=make_progress())
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
            task = bars.add_task("predicting", total=None)
            table = loaded.predict(images, lambda done, total: bars.update(task, completed=done, total=total))
    write_output(output, table.to_csv(index=False, float_format="%.6f").encode())
    print(f"{output}: {len(table)} predictions, {len(loaded.classes)} classes")

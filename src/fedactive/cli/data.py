"""`fedactive datasets`, `data` and `embed`: which datasets there are; get, check and embed them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedactive.cli.options import (
    CHOICES,
    SETTINGS,
    DataDir,
    Plugins,
    example,
    load_plugins,
    name_argument,
    with_flags,
)
from fedactive.data.catalog import DATASETS
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment

app = typer.Typer()
data_app = typer.Typer(
    help="Get datasets, and check those that are there.",
    epilog=example("fedactive data get cifar10"),
    no_args_is_help=True,
)
app.add_typer(data_app, name="data", rich_help_panel=CHOICES)

DatasetName = Annotated[str, name_argument("Name of a dataset (see `fedactive datasets`).", DATASETS)]
DatasetOrFile = Annotated[
    str,
    name_argument(
        "Name of a dataset, or path of your own: a folder of images, a CSV or .npz file.", DATASETS
    ),
]


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive datasets"))
def datasets() -> None:
    """List the datasets."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("dataset", "images", "classes", "what it is")
    for name, card in DATASETS.items():
        size = f"{card.size}x{card.size}x{card.channels}"
        notes = ["not supported: several labels per image"] if card.unsupported else []
        notes += [card.licence] if card.non_commercial else []
        what = card.description + "".join(f" [{note}]" for note in notes)
        table.add_row(name, size, str(len(card.classes)), escape(what))
    Console().print(table)


@data_app.command(epilog=example("fedactive data get cifar10"))
def get(
    name: DatasetName,
    data_dir: Annotated[Path, typer.Option(help="Write the files into this folder.")] = Path("data"),
) -> None:
    """Download a dataset's official files, and verify their checksums."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from fedactive.data.downloader import download

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        done = download(name, data_dir, progress)
    print(done)
    print(f"licence: {DATASETS[name].licence}")


@data_app.command(epilog=example("fedactive data check cifar10"))
def check(name: DatasetOrFile, data_dir: DataDir = Path("data")) -> None:
    """Say of each file of a dataset whether it is there, readable and official.

    Exits with 1 if the dataset cannot be used.
    """
    from fedactive.data.loader import check as check_files

    reports = check_files(name, data_dir)
    for report in reports:
        print(f"{report.path}: {report.problem or 'can be read'}{report.remark}")
    if not reports:
        print(f"{name} comes with the package, there is nothing to check")
    if any(report.problem for report in reports):
        raise typer.Exit(1)


OF_EMBED = ("dataset", "data_dir", "test_share", "backbone", "backbone_options", "image_size", "device")


@app.command(
    rich_help_panel=CHOICES,
    epilog=example("fedactive embed --backbone efficientnet_lite0 -o features.npz"),
)
@with_flags(flag for flag in SETTINGS if flag.name in OF_EMBED)
def embed(
    output: Annotated[Path, typer.Option("--output", "-o", help="Write this .npz file.")],
    plugin: Plugins = None,
    **flags: str | None,
) -> None:
    """Write the features of a dataset's images by a backbone, as a file that --dataset takes.

    If it is stopped, the same command goes on where it was.
    """
    load_plugins(plugin)
    experiment = Experiment.from_values({name: text for name, text in flags.items() if text is not None})
    if not experiment.backbone:
        raise ConfigurationError("backbone", "", "a name (see `fedactive backbones`) or the path of a file")
    if output.suffix != ".npz":
        raise ConfigurationError("output", str(output), "the path of an .npz file")

    from fedactive.files import write_output
    from fedactive.laboratory.features_file import features_file
    from fedactive.laboratory.progress import handle_interrupt, make_progress

    with handle_interrupt():
        content, summary = features_file(experiment, make_progress())
    write_output(output, content)
    print(f"{output}: {summary}")

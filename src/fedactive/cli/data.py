"""`fedactive data` and `fedactive datasets`: which datasets there are, getting them, checking them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from fedactive.data.catalog import DATASETS
from fedactive.data.download import download
from fedactive.data.load import check as check_files

app = typer.Typer(help="Get datasets, and check those that are there.", no_args_is_help=True)

DataDir = Annotated[Path, typer.Option(help="folder of the datasets")]
DatasetName = Annotated[str, typer.Argument(help="dataset (see `fedactive datasets`)", metavar="NAME")]
DatasetOrFile = Annotated[
    str, typer.Argument(help="dataset, or the path of an .npz file of your own", metavar="NAME")
]


def datasets() -> None:
    """List the datasets."""
    table = Table("dataset", "images", "classes", "what it is")
    for name, card in DATASETS.items():
        size = f"{card.size}x{card.size}x{card.channels}"
        notes = ["not supported: several labels per image"] if card.unsupported else []
        notes += [card.licence] if card.non_commercial else []
        what = card.description + "".join(f" [{note}]" for note in notes)
        table.add_row(name, size, str(len(card.classes)), escape(what))
    Console().print(table)


@app.command()
def get(name: DatasetName, data_dir: DataDir = Path("data")) -> None:
    """Download a dataset's official files, verified by checksum."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        done = download(name, data_dir, progress)
    print(done)
    print(f"licence: {DATASETS[name].licence}")


@app.command()
def check(name: DatasetOrFile, data_dir: DataDir = Path("data")) -> None:
    """Say of each file of a dataset whether it is there, readable and official; fails if it is no use."""
    reports = check_files(name, data_dir)
    for report in reports:
        print(f"{report.path}: {report.problem or 'can be read'}{report.remark}")
    if not reports:
        print(f"{name} comes with the package, there is nothing to check")
    if any(report.problem for report in reports):
        raise typer.Exit(1)

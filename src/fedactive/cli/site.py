"""`fedactive site`: take part with images that stay here.

The package works without the extra `sites`, so what needs it is imported when a command is called.
"""

from __future__ import annotations

import logging
import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedactive.cli.field import SitesGroup, prepare_to_serve
from fedactive.cli.options import example
from fedactive.errors import ConfigurationError
from fedactive.quick_imports import quick_imports

app = typer.Typer(
    help="Take part with images that stay here.",
    epilog=example("fedactive site init north --images images --classes classes.txt"),
    no_args_is_help=True,
    cls=SitesGroup,
)

Folder = Annotated[Path, typer.Argument(help="Folder of the site.", metavar="DIR")]


@app.command(epilog=example("fedactive site init north --images images --classes classes.txt"))
def init(
    folder: Folder,
    images: Annotated[
        Path, typer.Option(help="Folder of PNG, JPEG and DICOM files, or a MedMNIST-style .npz.")
    ],
    classes: Annotated[Path, typer.Option(help="File with the name of a class in each line.")],
    name: Annotated[str, typer.Option(help="Name of the site; by default that of its folder.")] = "",
    test: Annotated[
        Path | None, typer.Option(help="Test images: a folder with a folder per class, or an .npz.")
    ] = None,
) -> None:
    """Make a site: a folder with its own key pair."""
    from fedactive.sites.names import check_name
    from fedactive.sites.site.folder import Site

    site = Site.init(folder, check_name(name or Path(os.path.abspath(folder)).name), images, classes, test)
    print(f"send this file to the coordinator: {site.folder / 'site.pub'}")


@app.command(epilog=example("fedactive site join north invitation.toml"))
def join(
    folder: Folder,
    invitation: Annotated[
        Path, typer.Argument(help="Invitation from the coordinator.", metavar="invitation.toml")
    ],
) -> None:
    """Join a coordinator."""
    from fedactive.sites.site.folder import Site

    print(f"joined the coordinator at {Site.open(folder).join(invitation).address}")


@app.command(epilog=example("fedactive site move north new.example.org:9443"))
def move(
    folder: Folder,
    address: Annotated[str, typer.Argument(help="Where the coordinator is now: host:port.")],
) -> None:
    """Look for the coordinator at another address: the same one, so no new invitation is needed."""
    from fedactive.sites.invitation import Invitation, parse_address
    from fedactive.sites.site.folder import Site

    parse_address(address)
    file = Site.open(folder).folder / "invitation.toml"
    Invitation(address, Invitation.read(file).authority).write(file)
    print(f"the coordinator is looked for at {address}; start `fedactive site serve` again")


@app.command(epilog=example("fedactive site annotator north Ada"))
def annotator(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Name of the person.")],
    renew: Annotated[
        bool, typer.Option("--renew", help="Make a new token, instead of one that was lost.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Let nobody sign in under this name again.")
    ] = False,
    reviewer: Annotated[bool, typer.Option("--reviewer", help="Let them decide disagreements.")] = False,
    lead: Annotated[
        bool,
        typer.Option(
            "--lead", help="Let them export and import answers, decide disagreements, manage people."
        ),
    ] = False,
) -> None:
    """Add a person who labels, and show their token to sign in with: it is shown only once."""
    from fedactive.sites.site.folder import Site

    others = {"--renew": renew, "--reviewer": reviewer, "--lead": lead}
    if remove and any(others.values()):
        other = next(option for option, given in others.items() if given)
        raise ConfigurationError("annotator", f"--remove {other}", "one of them")
    with closing(Site.open(folder).store()) as store:
        if remove:
            store.annotators.remove(name)
            print(f"{name} cannot sign in any more; their answers stay")
        else:
            give = store.annotators.renew if renew else store.annotators.add
            print(give(name, lead=lead, reviewer=reviewer))


@app.command(epilog=example("fedactive site log north --since 2026-01-31"))
def log(
    folder: Folder,
    since: Annotated[
        datetime | None,
        typer.Option(
            metavar="DATE", help="Leave out what was before, as in 2026-01-31 or 2026-01-31T12:00:00 (UTC)."
        ),
    ] = None,
) -> None:
    """Print as CSV who signed in (or failed to), who saw and who answered what, and when.

    Times are UTC. The log only grows, and stays in the site's labels.sqlite. This works while the site is
    serving.
    """
    from fedactive.sites.labels.access_log import as_csv
    from fedactive.sites.site.folder import Site
    from fedactive.sites.site.image_numbers import ImageNumbers

    site = Site.open(folder)
    names = ImageNumbers.read(site.folder).names
    with closing(site.store()) as store:
        rows = store.access_log.read(names, site.classes, since and since.replace(tzinfo=UTC))
        print(as_csv(rows).encode(errors="backslashreplace").decode(), end="")


@app.command(epilog=example("fedactive site close north"))
def close(
    folder: Folder,
    run: Annotated[
        str | None, typer.Argument(help="Name of the run; without it, list those that ask for labels.")
    ] = None,
) -> None:
    """Close the open questions of a run that the coordinator has abandoned.

    This works while the site is serving. Labels are kept, and unanswered images can still be labelled, as
    left over from earlier rounds. If the run goes on after all, it waits for them or for its deadline, and
    its next round asks as usual.
    """
    from fedactive.sites.site.folder import Site

    with closing(Site.open(folder).store()) as store:
        if run is not None:
            closed = store.rounds.close_run(run)
            print(f"{run} asks for nothing more" if closed else f"{run} was asking for nothing")
            return
        asking = store.rounds.find_open()
        for one in asking:
            pending = store.rounds.counts(one).pending
            print(f"{one.run}: round {one.al_round}, since {one.opened:%Y-%m-%d}, {pending} images to label")
        if not asking:
            print("no run asks for labels now")


@app.command(epilog=example("fedactive site serve north --port 8000"))
def serve(
    folder: Folder,
    host: Annotated[str, typer.Option(help="Serve the labelling page on this address.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port of the page; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    certificate: Annotated[Path | None, typer.Option(help="Certificate of the page (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    device: Annotated[str, typer.Option(help="Train here: auto, cpu or cuda.")] = "auto",
    guess: Annotated[bool, typer.Option("--guess", help="Let people uncover the model's guess.")] = False,
    known_as: Annotated[
        list[str], typer.Option(help="Another name under which people reach the page. May be repeated.")
    ] = [],  # noqa: B006
    proxy: Annotated[
        list[str],
        typer.Option(help="Address of a proxy in front, which says whom it speaks for. May be repeated."),
    ] = [],  # noqa: B006
    monitor: Annotated[
        str, typer.Option(help="Answer /health and /metrics (Prometheus) here: host:port.")
    ] = "",
) -> None:
    """Serve the labelling page and train when the coordinator asks, until Ctrl-C."""
    with quick_imports():
        from fedactive.sites.certificates import describe_end
        from fedactive.sites.site import serve as serving
        from fedactive.sites.site.folder import Site

    if (certificate is None) != (key is None):
        given = str(certificate or key)
        raise ConfigurationError("certificate", given, "a --certificate together with its --key")
    prepare_to_serve()
    if certificate and (end := describe_end(certificate)):
        logging.warning("the page's certificate %s %s", certificate, end)
    pair = (certificate, key) if certificate and key else None
    try:
        serving.serve(Site.open(folder), host, port, pair, device, guess, known_as, proxy, monitor)
    except SystemExit:
        # All is closed. But a training that is going on cannot be told to end, and under it Python would
        # abort, with images in the core dump; what it would have sent is asked for again.
        os._exit(0)

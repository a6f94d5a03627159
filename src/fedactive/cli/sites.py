"""`fedactive coordinator` and `fedactive site`.

What they need is imported when they run: the package works without the extra `sites`, and so does `--help`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedactive.errors import ConfigurationError, UserError

coordinator_app = typer.Typer(help="Run federated active learning between sites.", no_args_is_help=True)
site_app = typer.Typer(help="Take part with images that stay here.", no_args_is_help=True)

CoordinatorFolder = Annotated[Path, typer.Argument(help="the coordinator's folder", metavar="DIR")]
SiteFolder = Annotated[Path, typer.Argument(help="the site's folder", metavar="DIR")]


@coordinator_app.command("init")
def coordinator_init(
    folder: CoordinatorFolder,
    address: Annotated[str, typer.Option(help="host:port under which sites reach it")] = "localhost:9443",
) -> None:
    """Make a coordinator: a folder with its own certificate authority, and an invitation for sites."""
    with the_extra():
        from fedactive.sites.coordinator.folder import Coordinator
    coordinator = Coordinator.init(folder, address)
    print(f"give sites this file, by a way they trust: {coordinator.folder / 'invitation.toml'}")


@coordinator_app.command("serve")
def coordinator_serve(
    folder: CoordinatorFolder,
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 is all")] = "127.0.0.1",
) -> None:
    """Be there for the sites, until Ctrl-C."""
    with the_extra():
        from fedactive.sites.coordinator.folder import Coordinator
        from fedactive.sites.coordinator.serve import serve
    prepare_to_serve()
    serve(Coordinator(folder), host)


@coordinator_app.command("admit")
def coordinator_admit(
    folder: CoordinatorFolder,
    public_key: Annotated[Path, typer.Argument(help="the site's public key", metavar="site.pub")],
    name: Annotated[str | None, typer.Option(help="another name than the one in the key")] = None,
) -> None:
    """Let a site take part."""
    with the_extra():
        from fedactive.sites.coordinator.folder import Coordinator
    print(f"{Coordinator(folder).admit(public_key, name).name} is admitted")


@coordinator_app.command("dismiss")
def coordinator_dismiss(
    folder: CoordinatorFolder,
    name: Annotated[str, typer.Argument(help="the site's name")],
) -> None:
    """Let a site take no part any more, neither in new runs nor in those going on."""
    with the_extra():
        from fedactive.sites.coordinator.folder import Coordinator
    Coordinator(folder).dismiss(name)
    print(f"{name} is dismissed")


@coordinator_app.command("run")
def coordinator_run(
    folder: CoordinatorFolder,
    plan: Annotated[Path, typer.Argument(help="what to run (see docs/FIELD.md)", metavar="PLAN.toml")],
) -> None:
    """Start a run and watch it, or go on watching. Ctrl-C leaves the run going on."""
    with the_extra():
        from fedactive.sites.coordinator import launch
        from fedactive.sites.coordinator.folder import Coordinator
    from fedactive.cli.app import print_result, read_config

    coordinator = Coordinator(folder)
    kept = coordinator.keep_plan(read_config(plan))
    taking_part = coordinator.sites_of(kept)
    for name in [site.name for site in coordinator.sites() if site not in taking_part]:
        print(f"{name} was admitted after this run began and takes part in the next", file=sys.stderr)
    try:
        print_result(launch.run(coordinator, kept))
    except KeyboardInterrupt:
        print("\na run that has begun goes on; the same command shows it again", file=sys.stderr)
        raise typer.Exit(130) from None


@coordinator_app.command("stop")
def coordinator_stop(
    folder: CoordinatorFolder,
    plan: Annotated[Path, typer.Argument(help="of the run", metavar="PLAN.toml")],
) -> None:
    """Stop a run. `run` goes on with it."""
    with the_extra():
        from fedactive.sites.coordinator import launch
        from fedactive.sites.coordinator.folder import Coordinator
    from fedactive.cli.app import read_config

    coordinator = Coordinator(folder)
    launch.stop(coordinator, coordinator.parse_plan(read_config(plan)))
    print("the run is stopped; `fedactive coordinator run` with the same plan goes on with it")


@site_app.command("init")
def site_init(
    folder: SiteFolder,
    images: Annotated[Path, typer.Option(help="folder of png and jpg files, or a MedMNIST-style .npz")],
    classes: Annotated[Path, typer.Option(help="file with the name of a class in each line")],
    name: Annotated[str, typer.Option(help="the site's name; by default that of its folder")] = "",
    test: Annotated[
        Path | None, typer.Option(help="test images: a folder with a folder per class, or an .npz")
    ] = None,
) -> None:
    """Make a site: a folder with its own key pair."""
    with the_extra():
        from fedactive.sites.names import check_name
        from fedactive.sites.site.folder import Site
    site = Site.init(folder, check_name(name or folder.resolve().name), images, classes, test)
    print(f"send this file to the coordinator: {site.folder / 'site.pub'}")


@site_app.command("join")
def site_join(
    folder: SiteFolder,
    invitation: Annotated[Path, typer.Argument(help="from the coordinator", metavar="invitation.toml")],
) -> None:
    """Join a coordinator."""
    with the_extra():
        from fedactive.sites.site.folder import Site
    print(f"joined the coordinator at {Site.open(folder).join(invitation).address}")


@site_app.command("annotator")
def site_annotator(
    folder: SiteFolder,
    name: Annotated[str, typer.Argument(help="of the person")],
    renew: Annotated[bool, typer.Option("--renew", help="a new token, instead of one that was lost")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="nobody signs in under this name again")] = False,
    lead: Annotated[bool, typer.Option("--lead", help="who may also export and import answers")] = False,
) -> None:
    """Add somebody who labels, and show the token to sign in with, this once."""
    with the_extra():
        from fedactive.sites.site.folder import Site
    if remove and (renew or lead):
        raise ConfigurationError("annotator", f"--remove {'--renew' if renew else '--lead'}", "one of them")
    with closing(Site.open(folder).store()) as store:
        if remove:
            store.annotators.remove(name)
            print(f"{name} cannot sign in any more; their answers stay")
        else:
            give = store.annotators.renew if renew else store.annotators.add
            print(give(name, lead=lead))


@site_app.command("close")
def site_close(
    folder: SiteFolder,
    run: Annotated[
        str | None, typer.Argument(help="the run; without it, those that ask for labels are listed")
    ] = None,
) -> None:
    """End what a run asks of the people here, if the coordinator has abandoned it.

    It can be done while the site serves. Labels stay, and unanswered images can still be labelled, as left
    over from earlier rounds. If the run goes on after all, it waits for these or for its deadline, and its
    next round asks as usual.
    """
    with the_extra():
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


@site_app.command("serve")
def site_serve(
    folder: SiteFolder,
    host: Annotated[str, typer.Option(help="address of the labelling page")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="its port; 0 takes a free one", min=0, max=65535)] = 8000,
    certificate: Annotated[Path | None, typer.Option(help="certificate of the page (PEM)")] = None,
    key: Annotated[Path | None, typer.Option(help="the certificate's key (PEM)")] = None,
    device: Annotated[str, typer.Option(help="where to train: auto, cpu or cuda")] = "auto",
    guess: Annotated[bool, typer.Option("--guess", help="people may uncover the model's guess")] = False,
) -> None:
    """Serve the labelling page and train when the coordinator asks, until Ctrl-C."""
    with the_extra():
        from fedactive.sites.site.folder import Site
        from fedactive.sites.site.serve import serve
    if (certificate is None) != (key is None):
        given = str(certificate or key)
        raise ConfigurationError("certificate", given, "a --certificate together with its --key")
    prepare_to_serve()
    pair = (certificate, key) if certificate and key else None
    try:
        serve(Site.open(folder), host, port, pair, device, guess)
    except SystemExit:
        # All is closed. But a training that is going on cannot be told to end, and under it Python would
        # abort, with images in the core dump; what it would have sent is asked for again.
        os._exit(0)


@contextmanager
def the_extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).split(".")[0]
        raise UserError(f"{package} is missing: pip install 'fedactive[sites]' brings it") from None


def prepare_to_serve() -> None:
    """Tell on the terminal what happens. Ctrl-C and SIGTERM end it in good order."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # an exception, so that everything is closed

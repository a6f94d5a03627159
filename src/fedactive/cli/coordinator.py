"""`fedactive coordinator`: start federated active learning between sites, and watch it.

The package works without the extra `sites`, so what needs it is imported when a command is called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedactive.cli.field import SitesGroup, prepare_to_serve
from fedactive.cli.options import example, read_config
from fedactive.errors import ConfigurationError
from fedactive.quick_imports import quick_imports

app = typer.Typer(
    help="Run federated active learning between sites.",
    epilog=example("fedactive coordinator init hub --address localhost:9443"),
    no_args_is_help=True,
    cls=SitesGroup,
)

Folder = Annotated[Path, typer.Argument(help="Folder of the coordinator.", metavar="DIR")]
PlanFile = Annotated[Path, typer.Argument(help="Plan of the run (see docs/FIELD.md).", metavar="PLAN.toml")]


@app.command(epilog=example("fedactive coordinator init hub --address localhost:9443"))
def init(
    folder: Folder,
    address: Annotated[
        str, typer.Option(help="Host and port under which sites reach it.")
    ] = "localhost:9443",
) -> None:
    """Make a coordinator: a folder with its own certificate authority, and an invitation for sites."""
    from fedactive.sites.coordinator.folder import Coordinator

    coordinator = Coordinator.init(folder, address)
    print(f"give sites this file, by a way they trust: {coordinator.folder / 'invitation.toml'}")


@app.command(epilog=example("fedactive coordinator serve hub --host 0.0.0.0"))
def serve(
    folder: Folder,
    host: Annotated[str, typer.Option(help="Listen on this address; 0.0.0.0 is all.")] = "127.0.0.1",
    page_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Serve the coordinator's page on this port; 0 takes a free one.",
            min=0,
            max=65535,
        ),
    ] = None,
    page_host: Annotated[str, typer.Option(help="Serve the page on this address.")] = "127.0.0.1",
    certificate: Annotated[Path | None, typer.Option(help="Certificate of the page (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    known_as: Annotated[
        list[str], typer.Option(help="Another name under which people reach the page. May be repeated.")
    ] = [],  # noqa: B006
    monitor: Annotated[
        str, typer.Option(help="Answer /health and /metrics (Prometheus) here: host:port.")
    ] = "",
    webhook: Annotated[str, typer.Option(help="Send alerts to this URL, as JSON.")] = "",
    stalled: Annotated[
        float,
        typer.Option(metavar="MIN", help="Minutes without an answer after which a site is stalled.", min=0.1),
    ] = 30.0,
) -> None:
    """Serve the sites until Ctrl-C. Runs that were interrupted continue."""
    with quick_imports():
        from fedactive.sites.coordinator import serve as serving
        from fedactive.sites.coordinator.folder import Coordinator
        from fedactive.sites.coordinator.overview.app import create_app
        from fedactive.sites.page.known_hosts import find_known_hosts
        from fedactive.sites.page.server import PageServer

    if (certificate is None) != (key is None):
        raise ConfigurationError("certificate", str(certificate or key), "a --certificate with its --key")
    if webhook and not webhook.startswith(("http://", "https://")):
        raise ConfigurationError("webhook", webhook, "a URL, as in https://chat.example.org/hooks/1")
    prepare_to_serve()
    coordinator, page = Coordinator(folder), None
    if page_port is not None:
        app = create_app(coordinator, stalled * 60, find_known_hosts(page_host, certificate, known_as))
        page = PageServer(app, page_host, page_port, (certificate, key) if certificate and key else None)
    serving.serve(coordinator, host, serving.Extras(monitor, page, webhook, stalled))


@app.command(epilog=example("fedactive coordinator token hub"))
def token(folder: Folder) -> None:
    """Make a new token to sign in to the coordinator's page, in place of the one before; it is shown once."""
    from fedactive.sites.coordinator.folder import Coordinator
    from fedactive.sites.coordinator.overview.token import make_token

    print(make_token(Coordinator(folder).folder))


@app.command(epilog=example("fedactive coordinator renew hub"))
def renew(folder: Folder) -> None:
    """Renew the server's certificate, which lasts 398 days. Start `serve` again afterwards."""
    from fedactive.sites.certificates import read_certificate
    from fedactive.sites.coordinator.folder import Coordinator

    coordinator = Coordinator(folder)
    new_invitation = coordinator.renew()
    end = read_certificate(coordinator.folder / "server.pem").not_valid_after_utc
    print(f"valid until {end:%Y-%m-%d}; to use it, start `fedactive coordinator serve` again")
    if new_invitation:
        invitation = coordinator.folder / "invitation.toml"
        print(f"its authority is a new one: all sites must join again, with this file: {invitation}")


@app.command(epilog=example("fedactive coordinator move hub --address new.example.org:9443"))
def move(
    folder: Folder,
    address: Annotated[str, typer.Option(help="Host and port under which sites reach it from now on.")],
) -> None:
    """Move to another address. Sites follow by themselves, while the old address still leads here."""
    from fedactive.sites.coordinator.folder import Coordinator

    coordinator = Coordinator(folder)
    coordinator.move(address)
    former = ", ".join(coordinator.former())
    print(
        f"start `fedactive coordinator serve` again; sites that look for it at {former} follow by themselves"
    )


@app.command(epilog=example("fedactive coordinator admit hub north.pub --name north"))
def admit(
    folder: Folder,
    public_key: Annotated[Path, typer.Argument(help="Public key of the site.", metavar="site.pub")],
    name: Annotated[str | None, typer.Option(help="Use this name instead of the one in the key.")] = None,
) -> None:
    """Let a site take part."""
    from fedactive.sites.coordinator.folder import Coordinator

    print(f"{Coordinator(folder).admit(public_key, name).name} is admitted")


@app.command(epilog=example("fedactive coordinator dismiss hub north"))
def dismiss(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Name of the site.")],
) -> None:
    """Dismiss a site: it takes part neither in new runs nor in those going on."""
    from fedactive.sites.coordinator.folder import Coordinator

    Coordinator(folder).dismiss(name)
    print(f"{name} is dismissed")


@app.command(epilog=example("fedactive coordinator sites hub"))
def sites(folder: Folder) -> None:
    """List the sites, and since when they are admitted."""
    from fedactive.sites.coordinator.folder import Coordinator

    known = Coordinator(folder).all_sites()
    for site in known:
        print(f"{site.name}: {site.describe()}")
    if not known:
        print("no site is admitted yet; `fedactive coordinator admit` does that")


@app.command(epilog=example("fedactive coordinator run hub plan.toml"))
def run(folder: Folder, plan: PlanFile) -> None:
    """Start a run and watch it, or watch one that was started. Ctrl-C leaves the run going on."""
    from fedactive.cli.tables import print_result
    from fedactive.sites.coordinator import launch
    from fedactive.sites.coordinator.folder import Coordinator

    coordinator = Coordinator(folder)
    coordinator.require_certificate()
    if notice := coordinator.certificate_notice():
        print(notice, file=sys.stderr)
    kept = coordinator.keep_plan(read_config(plan))
    taking_part = coordinator.sites_of(kept)
    for name in [site.name for site in coordinator.sites() if site not in taking_part]:
        print(f"{name} was admitted after this run began and takes part in the next", file=sys.stderr)
    try:
        print_result(launch.run(coordinator, kept))
    except KeyboardInterrupt:
        print("\na run that has begun goes on; the same command shows it again", file=sys.stderr)
        raise typer.Exit(130) from None


@app.command(epilog=example("fedactive coordinator stop hub plan.toml"))
def stop(folder: Folder, plan: PlanFile) -> None:
    """Stop a run; `fedactive coordinator run` resumes it."""
    from fedactive.sites.coordinator import launch
    from fedactive.sites.coordinator.folder import Coordinator

    coordinator = Coordinator(folder)
    launch.stop(coordinator, coordinator.parse_plan(read_config(plan)))
    print("the run is stopped; `fedactive coordinator run` with the same plan goes on with it")

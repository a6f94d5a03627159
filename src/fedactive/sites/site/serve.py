"""`fedactive site serve`: one long-lived process with the labelling page, the trainer and the SuperNode."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from fedactive.engines import choose_device
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.files import write_json
from fedactive.sites.flower.supernode import SuperNode
from fedactive.sites.invitation import Invitation
from fedactive.sites.monitor import Monitor
from fedactive.sites.page.app import create_app
from fedactive.sites.page.known_hosts import find_known_hosts
from fedactive.sites.page.server import PageServer
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.folder import Site
from fedactive.sites.site.guide import read_guide
from fedactive.sites.site.metrics import metrics, troubles
from fedactive.sites.site.trainer import Trainer
from fedactive.sites.site.whereabouts import Whereabouts

log = logging.getLogger(__name__)


def serve(
    site: Site,
    host: str,
    port: int,
    certificate: tuple[Path, Path] | None,
    device: str,
    guess: bool,
    known_as: Sequence[str] = (),
    proxies: Sequence[str] = (),
    monitor: str = "",
) -> None:
    """Serve until a signal ends it; with `guess` people may see the model's guess of an image.

    `monitor` is host:port for a monitoring system; none if empty.
    """
    if not (site.folder / "invitation.toml").exists():
        raise UserError(f"{site.name} has not joined a coordinator; `fedactive site join` does that")
    choose_device(Experiment(device=device).device)  # a device that is not here is an error now
    coordinator = Invitation.read(site.folder / "invitation.toml").address
    with closing(site.hold()), closing(site.store()) as store:
        site.keep_classes(store)
        images = Collection(site, store)
        secret = (site.folder / "page.secret").read_bytes()
        trainer = Trainer(site.folder / "runs", store, site.classes, images, device)
        app = create_app(
            store,
            images,
            site.classes,
            secret=secret,
            title=site.name,
            known_hosts=find_known_hosts(host, certificate and certificate[0], known_as),
            guess=trainer.guess if guess else None,
            guide=read_guide(site.folder / "guide.toml", site.classes),
        )
        page = PageServer(app, host, port, certificate, proxies)
        write_json(site.folder / "page.json", {"address": page.address})
        supernode = SuperNode(site.folder, coordinator, trainer.answer)
        watched = [
            Monitor(monitor, partial(troubles, supernode), partial(metrics, store, supernode, images))
            for _ in filter(None, [monitor])
        ]
        log.info("%s: %d images, labelling page at %s", site.name, len(images), page.address)
        stopped = threading.Event()
        whereabouts = Whereabouts(site.folder, supernode)
        threading.Thread(target=whereabouts.watch, args=(stopped,), daemon=True).start()
        supernode.start()
        for one in watched:
            one.start()
        try:
            page.run()
        finally:
            stopped.set()
            for one in watched:
                one.stop()
            supernode.stop()
            trainer.close()

"""How a site is, for Prometheus and for /health: counts only, no names of people or images."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from fedactive.sites.flower.supernode import SuperNode
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.monitor import Reading, single


def troubles(supernode: SuperNode) -> list[str]:
    """Say why there is no connection to the coordinator, if there is none."""
    return [] if supernode.connected else [supernode.last_said or "the site is connecting"]


def metrics(store: LabelStore, supernode: SuperNode, images: Sized) -> Iterable[Reading]:
    asking = store.rounds.find_open()
    pending = sum(store.rounds.counts(one).pending for one in asking)
    yield single(
        "fedactive_up", "Whether the site is connected to the coordinator.", float(supernode.connected)
    )
    yield single("fedactive_images", "Images of the site.", float(len(images)))
    yield single("fedactive_labels", "Images that have a label.", float(len(store.labels())))
    yield single("fedactive_open_rounds", "AL rounds that ask for labels.", float(len(asking)))
    yield single("fedactive_pending", "Images that wait for people.", float(pending))

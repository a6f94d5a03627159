"""A site: its folder, and the one long-lived process with page, trainer and SuperNode.

site.toml            name, where the images are, the classes
site.key, site.pub   its key pair; the coordinator gets site.pub and nothing else
invitation.toml      the coordinator's, once the site has joined
images.json          the images in the order of their numbers, and what they show: labels belong to these
classes.json         the classes in the order of their numbers, which are what labels are
labels.sqlite        the label store
cache/               decoded images, the site's own: what no run needs any more is deleted there
runs/                what the trainer remembers of each run
"""

from __future__ import annotations

import fcntl
import json
import logging
import secrets
import tomllib
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fedactive.data.catalog import DatasetCard
from fedactive.engines import choose_device
from fedactive.errors import DataError, UserError
from fedactive.experiment import Experiment
from fedactive.files import write_atomically, write_json
from fedactive.sites.flower.supernode import SuperNode
from fedactive.sites.invitation import Invitation
from fedactive.sites.keys import make_site_key, write_secret
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.page.app import PageServer, create_app
from fedactive.sites.site.images import ImagePool, Report, fit, read_images
from fedactive.sites.site.session import Holdings
from fedactive.sites.site.trainer import Trainer

log = logging.getLogger(__name__)

THUMBNAIL = (1, 8, 8)  # the page shows originals: to number the images any shape will do
CACHE = "cache"
FILES = ("site.toml", "page.secret", "site.key", "site.pub")  # of a site, in the order of their making


@dataclass(frozen=True)
class Site:
    folder: Path
    name: str
    images: Path
    classes: tuple[str, ...]
    test: Path | None

    @classmethod
    def init(cls, folder: Path, name: str, images: Path, classes: Path, test: Path | None) -> Site:
        """A new site with a key pair of its own."""
        if is_site(folder):
            raise UserError(f"{folder} is a site's already, and coordinators may know its key")
        for source in filter(None, (images, test)):
            if source.resolve().is_relative_to((folder / CACHE).resolve()):
                raise UserError(f"{source} is where the site keeps decoded images, and deletes them; move it")
        names = read_classes(classes)
        tell(read_images(images, THUMBNAIL).report)  # now, not at the first run
        read_test_images(test, names, THUMBNAIL)
        values = {"name": name, "images": str(images.resolve()), "classes": list(names)}
        values |= {"test": str(test.resolve())} if test else {}
        # JSON's strings are TOML's, but for characters that JSON would write in two halves.
        lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
        try:
            text = "".join(lines).encode()
        except UnicodeEncodeError:
            raise UserError("the path of the images is no text in UTF-8; rename its folders") from None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)  # images and labels are nobody else's
            write_atomically(folder / "site.toml", text)
            write_secret(folder / "page.secret", secrets.token_bytes(32))
            make_site_key(folder / "site.key", folder / "site.pub", name)
        except OSError as error:
            raise UserError(f"cannot make a site in {folder}: {error.strerror}") from None
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Site:
        if not is_site(folder):
            raise UserError(f"{folder} is no site's folder; `fedactive site init` makes one")
        try:
            values = tomllib.loads((folder / "site.toml").read_text(encoding="utf-8"))
            test = Path(values["test"]) if "test" in values else None
            return cls(
                folder.resolve(), values["name"], Path(values["images"]), tuple(values["classes"]), test
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / 'site.toml'} is damaged: {error}") from None

    def join(self, invitation: Path) -> Invitation:
        given = Invitation.read(invitation)
        write_atomically(self.folder / "ca.pem", given.authority.encode())
        given.write(self.folder / "invitation.toml")  # last: who has it has joined
        return given

    def store(self) -> LabelStore:
        return LabelStore(self.folder / "labels.sqlite")

    # --- serving

    def serve(
        self, host: str, port: int, certificate: tuple[Path, Path] | None, device: str, guess: bool
    ) -> None:
        """Page, trainer and SuperNode, until a signal ends them; `guess`: people may see the model's."""
        if not (self.folder / "invitation.toml").exists():
            raise UserError(f"{self.name} has not joined a coordinator; `fedactive site join` does that")
        choose_device(Experiment(device=device).device)  # what does not exist, or not here, is told now
        coordinator = Invitation.read(self.folder / "invitation.toml").address
        with closing(self.hold()), closing(self.store()) as store:
            self.keep_classes(store)
            pool = self.read(THUMBNAIL)
            tell(pool.report)
            secret = (self.folder / "page.secret").read_bytes()
            trainer = Trainer(self.folder / "runs", store, self.classes, self.holdings, device)
            offered = trainer.guess if guess else None
            app = create_app(store, pool, self.classes, secret=secret, title=self.name, guess=offered)
            page = PageServer(app, host, port, certificate)
            write_json(self.folder / "page.json", {"address": page.address})
            supernode = SuperNode(self.folder, coordinator, trainer.answer)
            log.info("%s: %d images, labelling page at %s", self.name, len(pool), page.address)
            supernode.start()
            try:
                page.run()
            finally:
                supernode.stop()
                trainer.close()

    def hold(self) -> IO[str]:
        """One process at a time: a second one's trainer would write over the first one's."""
        lock = open(self.folder / ".lock", "w")  # noqa: SIM115 - held until closed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise UserError(f"{self.name} is being served already, by another process") from None
        return lock

    def holdings(self, card: DatasetCard) -> Holdings:
        """The site's images in the form that a run wants."""
        shape = (card.channels, card.size, card.size)
        pool = self.read(shape)
        for cache in (self.folder / CACHE).glob("[0-9]*x[0-9]*x[0-9]*.npz"):
            if cache not in (self.cache(THUMBNAIL), self.cache(shape)):  # of an earlier run
                cache.unlink()
        test_images, test_labels = read_test_images(self.test, self.classes, shape)
        return Holdings(torch.from_numpy(pool.pixels), test_images, test_labels)

    def read(self, shape: tuple[int, int, int]) -> ImagePool:
        """The images, under the numbers that they had from the beginning: labels belong to numbers."""
        pool = read_images(self.images, shape, self.cache(shape))
        file, here = self.folder / "images.json", dict(zip(pool.names, pool.digests, strict=True))
        if not file.exists():
            write_json(file, {"images": here})
        known = json.loads(file.read_text())["images"]
        if changed := first_change(known, here):
            raise DataError(
                f"the images in {self.images} are not those of the first start, and labels belong to these: "
                f"{changed}; restore them, or make a new site of the new images"
            )
        return pool

    def cache(self, shape: tuple[int, int, int]) -> Path:
        return self.folder / CACHE / ("x".join(map(str, shape)) + ".npz")

    def keep_classes(self, store: LabelStore) -> None:
        """Labels are numbers of classes: from the first answer on these stay what they are."""
        file = self.folder / "classes.json"
        known = json.loads(file.read_text())["classes"] if file.exists() else list(self.classes)
        if known != list(self.classes) and store.answers.events("1 LIMIT 1"):
            raise DataError(
                f"the classes in {self.folder / 'site.toml'} are not those that people have labelled with: "
                f"{', '.join(known)}; restore them, or make a new site"
            )
        write_json(file, {"classes": list(self.classes)})


def is_site(folder: Path) -> bool:
    """Anything less is what an interrupted `init` left, or somebody removed: `init` writes over it."""
    return all((folder / name).exists() for name in FILES)


def first_change(known: dict[str, str], here: dict[str, str]) -> str | None:
    """What happened to the first image that is not what it was; None if all are. Names give the order."""
    for name in known | here:
        if name not in here:
            return f"{name} is missing"
        if name not in known:
            return f"{name} is new"
        if here[name] != known[name]:
            return f"{name} is another picture"
    return None


def tell(report: Report, where: str = "") -> None:
    for line in report.sentences():
        log.warning(where + line)


def read_classes(path: Path) -> tuple[str, ...]:
    """One class per line."""
    try:
        classes = tuple(filter(None, map(str.strip, path.read_text(encoding="utf-8-sig").splitlines())))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text in UTF-8") from None
    if len(classes) < 2 or len(set(classes)) != len(classes):
        raise DataError(f"{path} must name two or more different classes, one per line")
    return classes


def read_test_images(
    source: Path | None, classes: tuple[str, ...], shape: tuple[int, int, int]
) -> tuple[Tensor, Tensor]:
    """Images with their classes: from a folder per class, or test_images and test_labels of an .npz."""
    if source is None:
        return torch.zeros((0, *shape), dtype=torch.uint8), torch.zeros(0, dtype=torch.long)
    if source.is_dir():
        pool = read_images(source, shape)
        folders = [name.split("/")[0] for name in pool.names]
        if strangers := set(folders) - set(classes):
            raise DataError(f"{source / min(strangers)} is not named after a class")
        for name, kept in pool.report.duplicates:
            if name.split("/")[0] != kept.split("/")[0]:
                raise DataError(f"{source / kept} and {source / name} are the same picture in two classes")
        tell(pool.report, "among the test images, ")
        return torch.from_numpy(pool.pixels), torch.tensor([classes.index(folder) for folder in folders])
    try:
        with np.load(source, allow_pickle=False) as content:
            images, labels = content["test_images"], content["test_labels"].reshape(-1).astype(np.int64)
            pixels = np.stack([fit(Image.fromarray(image), shape) for image in images])
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read test_images and test_labels of {source}: {error}") from None
    if len(labels) != len(pixels) or labels.min() < 0 or labels.max() >= len(classes):
        raise DataError(f"{source}: test_labels does not number the classes of the {len(pixels)} test_images")
    return torch.from_numpy(pixels), torch.from_numpy(labels)

"""A site's folder.

site.toml            name, where the images are, the classes
site.key, site.pub   its key pair; the coordinator gets site.pub and nothing else
invitation.toml      the coordinator's, once the site has joined
images.json          the images by number, and what they show: labels belong to these (see image_numbers.py)
classes.json         the classes in the order of their numbers, which are what labels are
labels.sqlite        the label store
guide.toml           optional: groups, definitions and example pictures of the classes (see guide.py)
cache/               decoded images; those that no run needs any more are deleted; features of backbones
backbones/           files of backbones, which somebody has put there for runs
runs/                what the trainer remembers of each run
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fedactive.errors import DataError, UserError
from fedactive.files import RESTORE, load_toml, read_json, write_atomically, write_json
from fedactive.sites.invitation import Invitation
from fedactive.sites.keys import make_site_key, write_secret
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.site.image_pool import ImagePool
from fedactive.sites.site.labelled_images import read_classes, read_test_images
from fedactive.sites.site.read_images import read_images

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
        """Make a new site with a key pair of its own."""
        if is_site(folder):
            raise UserError(f"{folder} is a site's already, and coordinators may know its key")
        for source in filter(None, (images, test)):
            if not source.exists():
                raise DataError(f"{source}: there is no such folder or file")
            if Path(os.path.realpath(source)).is_relative_to(os.path.realpath(folder / CACHE)):
                raise UserError(f"{source} is where the site keeps decoded images, and deletes them; move it")
        names = read_classes(classes)
        log_report(read_images(images, THUMBNAIL, test=test))  # now, not at the first run
        read_test_images(test, names, THUMBNAIL)
        values = {"name": name, "images": str(images.resolve()), "classes": list(names)}
        values |= {"test": str(test.resolve())} if test else {}
        # JSON's strings are TOML's, but for characters that JSON would write in two halves.
        lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
        try:
            text = "".join(lines).encode()
        except UnicodeEncodeError:
            raise UserError("the path of the images is not text in UTF-8; rename its folders") from None
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
            raise UserError(f"{folder} is not a site's folder; `fedactive site init` makes one")
        try:
            values = load_toml((folder / "site.toml").read_text(encoding="utf-8"))
            test = Path(values["test"]) if "test" in values else None
            return cls(
                folder.resolve(), values["name"], Path(values["images"]), tuple(values["classes"]), test
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / 'site.toml'} is damaged: {error}") from None

    def join(self, invitation: Path) -> Invitation:
        given = Invitation.read(invitation)
        write_atomically(self.folder / "ca.pem", given.authority.encode())
        given.write(self.folder / "invitation.toml")  # last: it says that the site has joined
        return given

    def store(self) -> LabelStore:
        return LabelStore(self.folder / "labels.sqlite")

    def hold(self) -> IO[str]:
        """Lock the site, until the file is closed: a second process would spoil the first one's files."""
        lock = open(self.folder / ".lock", "w")  # noqa: SIM115 - held until closed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise UserError(f"{self.name} is being served already, by another process") from None
        return lock

    def keep_classes(self, store: LabelStore) -> None:
        """Write down the classes. From the first answer on they may not change: labels are their numbers."""
        file = self.folder / "classes.json"
        known = read_json(file, "classes", list(self.classes), RESTORE)
        if known != list(self.classes) and store.answers.events("1 LIMIT 1"):
            raise DataError(
                f"the classes in {self.folder / 'site.toml'} are not those that people have labelled with: "
                f"{', '.join(known)}; restore them, or make a new site"
            )
        write_json(file, {"classes": list(self.classes)})


def is_site(folder: Path) -> bool:
    """Is the folder a complete site? What an interrupted `init` left is not, and `init` writes over it."""
    return all((folder / name).exists() for name in FILES)


def log_report(pool: ImagePool) -> None:
    """Log which images are left out, and why."""
    for sentence in pool.left_out():
        log.warning(sentence)

"""What fedactive wrote itself, and somebody changed since: runs, results, models, and folders of sites."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from fuzz.inputs import damage, text
from fuzz.options import flags
from fuzz.payload import payloads, script, sealed
from fuzz.sound import PLAN, SUITE, TINY, Sound
from support.damage import damage_folder, damage_results
from support.forgery import forge

TABLES = ("accuracy", "ranks", "penalty", "observation", "balance")


def toml(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """A configuration, a suite or a plan."""
    config = sound.experiment(dataset="cifar10", runs_dir="runs", data_dir="data").to_toml()
    kind, content = rng.choice((("config", config), ("suite", SUITE), ("plan", PLAN)))
    path = place / f"{kind}.toml"
    path.write_bytes(damage(content.encode(), rng))
    if kind == "config":
        return [rng.choice(("run", "compare")), "--config", path.name]
    if kind == "suite":
        return ["benchmark", *rng.choice((["show"], ["run", "--no-trial"])), path.name]
    shutil.copytree(sound.hub, place / "hub")
    return ["coordinator", rng.choice(("run", "stop")), "hub", path.name]


def models(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """An exported model, or a backbone."""
    path = rng.choice((*sound.models, *sound.backbones))
    content, copy = path.read_bytes(), place / path.name
    scripts = [script(content)] if path.suffix == ".pt" else []
    copy.write_bytes(rng.choice([*[damage(content, rng)] * 8, *payloads(), *scripts * 4]))
    if path in sound.models:
        pictures = str(rng.choice((sound.pictures / "test" / "ant", sound.images)))
        return ["predict", path.name, pictures, "-o", "predictions.csv"]
    values = {"dataset": str(sound.pictures), "backbone": path.name, "image_size": "32"}
    return rng.choice((["run", *flags(TINY | values)], ["embed", *flags(values), "-o", "features.npz"]))


def runs(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """A run folder, which is read, exported or resumed."""
    folder = Path(shutil.copytree(sound.run, place / "runs" / sound.run.name))
    how = rng.choice(("folder", "folder", "checkpoint", "file"))
    if how == "folder":
        damage_folder(folder, rng)
    elif how == "checkpoint":
        file = folder / "checkpoint.pt"
        file.write_bytes(forge(file.read_bytes(), rng))
    else:
        file = rng.choice(sorted(folder.iterdir()))
        file.write_bytes(rng.choice([damage(file.read_bytes(), rng), *payloads(), sealed()]))
    here, resumed = str(folder.relative_to(place)), TINY | {"dataset": str(sound.images), "runs_dir": "runs"}
    return rng.choice(
        (
            ["report", "runs"],
            ["paper", "export", "runs"],
            ["paper", "show", rng.choice(TABLES), "--from", "runs"],
            ["export", here, "-o", rng.choice(("model.safetensors", "model.pt"))],
            ["predict", here, str(sound.images), "-o", "predictions.csv"],
            ["run", *flags(resumed)],
            ["run", *flags(resumed | {"rounds": "3"})],
            ["run", "--fresh", *flags(resumed)],
        )
    )


def results(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """A results file."""
    shutil.copytree(sound.results, place / "results")
    damage_results(place / "results", rng)
    return rng.choice(
        (
            ["report", "results"],
            ["paper", "export", "results", "-o", "again"],
            ["paper", "show", rng.choice(TABLES), "--from", "results"],
            ["benchmark", "show", "smoke", "--from", "results"],
        )
    )


def sites(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """The folder of a coordinator or of a site, keys, invitations and certificates."""
    hub = Path(shutil.copytree(sound.hub, place / "hub"))
    north = Path(shutil.copytree(sound.site, place / "north")) / "site"
    whose = rng.choice((hub, north))
    file = rng.choice(sorted(path for path in whose.rglob("*") if path.is_file() and path.name[0] != "."))
    file.write_bytes(rng.choice([*[damage(file.read_bytes(), rng)] * 5, *payloads()]))
    at, word = str(whose.relative_to(place)), text(rng)
    if whose == north:
        return [
            "site",
            *rng.choice(
                (
                    ["log", at],
                    ["log", at],
                    ["close", at],
                    ["close", at, word],
                    ["annotator", at, word],
                    ["annotator", at, "ada", rng.choice(("--renew", "--remove"))],
                    ["join", at, str(hub / "invitation.toml")],
                    ["move", at, rng.choice((word, "new.example.org:9443"))],
                )
            ),
        ]
    return rng.choice(
        (
            ["coordinator", "sites", at],
            ["coordinator", "admit", at, str(north / "site.pub")],
            ["coordinator", "dismiss", at, "north"],
            ["coordinator", "token", at],
            ["coordinator", "renew", at],
            ["coordinator", "move", at, "--address", rng.choice((word, "new.example.org:9443"))],
            ["coordinator", "run", at, f"{at}/plan.toml"],
            ["coordinator", "stop", at, f"{at}/plan.toml"],
            ["site", "join", str(north), f"{at}/invitation.toml"],
            ["coordinator", "admit", at, f"{at}/{rng.choice(('ca.pem', 'server.key', 'sites.json'))}"],
        )
    )

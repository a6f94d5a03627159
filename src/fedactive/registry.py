"""What is chosen by name, such as strategies: ours, an installed package's or a plugin file's.

A registry knows its names from the files of its folder, without importing them: `fedactive --help` lists all
strategies and never loads PyTorch. The file `query/strategies/entropy.py` holds the strategy `entropy`; to
add a strategy, add a file.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from fedactive.errors import ConfigurationError, UserError, unknown_name
from fedactive.options import options_of, parse_pairs

PLUGIN_MODULE = "fedactive_plugin_"  # begins the names of modules that come from a file

C = TypeVar("C", bound=type[Any])


class Registry(Mapping[str, Any]):
    """The classes of one kind by name. Ours are imported when first asked for."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind  # "strategy", as in --strategy and in messages
        self.package = package  # of ours, one module for each
        self.classes: dict[str, Any] = {}  # those imported so far
        self.required: tuple[str, ...] = ("name", "summary", "paper")  # attributes that each class must have
        self.validate: Callable[[Any], None] = lambda made: None  # may refuse what was made
        self.installed: bool = False  # have the entry points been loaded?

    @cached_property
    def ours(self) -> list[str]:
        folder = files("fedactive").joinpath(*self.package.split(".")[1:])
        stems = (Path(entry.name) for entry in folder.iterdir())
        return sorted(path.stem for path in stems if path.suffix == ".py" and path.stem[0] != "_")

    def __iter__(self) -> Iterator[str]:
        self.load_installed()
        return iter(sorted({*self.ours, *self.classes}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        self.load_installed()
        return name in self.classes or name in self.ours

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise unknown_name(self.kind, name, self, self.hint)
        if name not in self.classes:
            importlib.import_module(f"{self.package}.{name}")
        return self.classes[name]

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    @property
    def hint(self) -> str:
        return f", or one of your own from a file: --plugin my_{self.kind}.py"

    def register(self, cls: C) -> C:
        """Make a class known by its `name`; a class decorator. One's own class may be registered again."""
        missing = [f for f in self.required if not hasattr(cls, f)]
        missing += sorted(getattr(cls, "__abstractmethods__", ()))
        if missing:
            raise UserError(f"{self.kind} {cls.__name__} lacks {', '.join(missing)}")
        if cls.name in self.ours and cls.__module__ != f"{self.package}.{cls.name}":
            raise UserError(f"{self.kind} {cls.name} comes with fedactive; choose another name for yours")
        self.classes[cls.name] = cls
        return cls

    def options(self, name: str, text: str) -> dict[str, Any]:
        """Read `a=x,b=y` as options of that name's class."""
        return parse_pairs(f"{self.kind}_options", name, self[name], text)

    def all_options(self, name: str, text: str) -> dict[str, Any]:
        """Read options as `options` does, and add the defaults of the others."""
        return {item.name: item.default for item in options_of(self[name])} | self.options(name, text)

    def make(self, name: str, text: str = "", **more: Any) -> Any:
        """Make an instance with these options; of `more` it gets the fields that it has."""
        cls, has = self[name], getattr(self[name], "__dataclass_fields__", {})
        made = cls(**self.options(name, text), **{key: more[key] for key in more if key in has})
        self.validate(made)
        return made

    def load_installed(self) -> None:
        """Import, once, the modules that installed packages name as entry points of `fedactive.<kind>s`."""
        if self.installed:
            return
        self.installed = True
        for entry in entry_points(group=self.group):
            try:
                entry.load()
            except Exception as error:
                what = f"the {self.group.split('.')[1]} of {entry.value}"
                raise UserError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error

    @property
    def group(self) -> str:
        return "fedactive." + (f"{self.kind[:-1]}ies" if self.kind.endswith("y") else f"{self.kind}s")

    # --- the files of plugins and packages

    def file_of(self, name: str) -> Path | None:
        """Find the file of a plugin or a package that has this name's class; None for ours."""
        module = self[name].__module__
        path = getattr(sys.modules.get(module), "__file__", None)
        return None if module.startswith(f"{self.package}.") or path is None else Path(path)

    def parts_of(self, name: str, text: str) -> list[str]:
        """List the name and those of this kind that its options name, such as LoGo's micro step."""
        values = self.all_options(name, text).values()
        return [name, *(value for value in values if isinstance(value, str) and value in self)]

    def code_of(self, name: str, text: str = "") -> str | None:
        """Hash the files that `file_of` finds for the name and its parts; None if all are ours."""
        found = {self.file_of(part) for part in self.parts_of(name, text)}
        hashes = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in found if file)
        if len(hashes) > 1:
            return hashlib.sha256("".join(hashes).encode()).hexdigest()
        return hashes[0] if hashes else None


STRATEGIES = Registry("strategy", "fedactive.query.strategies")
ALGORITHMS = Registry("algorithm", "fedactive.federated.algorithms")
OBJECTIVES = Registry("objective", "fedactive.federated.objectives")
MODELS = Registry("model", "fedactive.models.architectures")
REGISTRIES = (STRATEGIES, ALGORITHMS, OBJECTIVES, MODELS)  # of these every experiment has one
BACKBONES = Registry("backbone", "fedactive.backbones.kinds")
METHODS = Registry("method", "fedactive.methods.published")  # settings of an experiment under one name
METHODS.required = ("name", "summary", "paper", "settings")
TRACKERS = Registry("tracker", "fedactive.laboratory.trackers")
TRACKERS.required = ("name", "summary")
AUGMENTATIONS = Registry("augmentation", "fedactive.federated.augmentations")


def split_names(text: str) -> list[str]:
    """Read the names of several things in one text, as in flip+crop; `none` names nothing."""
    return [] if text == "none" else [name.strip() for name in text.split("+")]


def load_plugin(path: str | Path) -> None:
    """Import a Python file that registers strategies, objectives, methods or others of these kinds."""
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError("plugin", str(path), "a Python file that exists")
    folder = hashlib.sha256(str(path.resolve().parent).encode()).hexdigest()[:8]
    name = f"{PLUGIN_MODULE}{path.stem}_{folder}"  # two files of one name may lie in different folders
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"plugin {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except UserError as error:
        raise UserError(f"plugin {path}: {error}") from error
    except Exception as error:
        raise UserError(f"plugin {path} cannot be loaded: {type(error).__name__}: {error}") from error

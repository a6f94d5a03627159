"""Engines compute the training of many clients; the sequential engine is the definition."""

from fedactive.engines.device import choose_device, own_stream, usable_cores
from fedactive.engines.engine import Engine
from fedactive.engines.shelf import EngineShelf, make_engine

__all__ = ["Engine", "EngineShelf", "choose_device", "make_engine", "own_stream", "usable_cores"]

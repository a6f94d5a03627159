"""Engines compute the training of many clients; the sequential engine is the definition."""

from fedactive.engines.batched import BatchedEngine
from fedactive.engines.device import choose_device, own_stream, usable_cores
from fedactive.engines.engine import Engine
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.engines.shelf import EngineShelf, make_engine

__all__ = [
    "BatchedEngine",
    "Engine",
    "EngineShelf",
    "ParallelEngine",
    "SequentialEngine",
    "choose_device",
    "make_engine",
    "own_stream",
    "usable_cores",
]

"""Federated active learning: LoGo and its rivals, from the paper to real sites."""

__version__ = "0.1.0"

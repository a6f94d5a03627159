"""Federated algorithms: one file each, which has the algorithm's name."""

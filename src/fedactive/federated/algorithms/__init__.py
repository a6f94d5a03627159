"""Federated algorithms: one file, one algorithm, named as its file is."""

"""Architectures: one file each, which has the model's name."""

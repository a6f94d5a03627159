"""Architectures: one file, one model, named as its file is."""

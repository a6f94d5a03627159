"""Kinds of backbones: one file each, which has the backbone's name, or that of a format of files."""

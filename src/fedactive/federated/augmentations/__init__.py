"""Augmentations: one file each, which has the augmentation's name."""

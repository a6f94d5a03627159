"""Objectives: one file each, which has the objective's name."""

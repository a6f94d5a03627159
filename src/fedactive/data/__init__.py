"""Datasets: their catalogue, how they are read from disk, and how their official files are downloaded."""

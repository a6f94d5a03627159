"""Flower carries the messages: its records, its processes, and our code at both ends."""

import os

# No telemetry: Flower reads the first when it is imported, Ray the second when it starts.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

"""Everything that knows Flower: its messages, its processes, its two ends, its simulation engine."""

import os

# Flower looks at the first when it is imported, Ray at the second when it starts: they phone nobody.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

"""Everything that knows Flower: its messages, its processes, its two ends."""

"""Query strategies: one file, one strategy, named as its file is."""

"""Query strategies: one file each, which has the strategy's name."""

"""The benchmark: suites of settings on which methods are run, and judged by the same rules."""

"""The labelling page: people answer in the browser, programs over the same HTTP."""

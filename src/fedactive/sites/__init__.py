"""The field: real sites, with people labelling in the browser."""

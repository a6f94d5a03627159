"""The label store of a site."""

"""The coordinator: runs a plan between sites, and never sees an image or a label."""

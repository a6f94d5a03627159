"""A site: one client of the federation, whose images and labels stay where they are."""

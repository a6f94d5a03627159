"""The coordinator's page: read-only, with a sign-in of its own."""

"""Published methods that are more than a query strategy: one method, one file."""

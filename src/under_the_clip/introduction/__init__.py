"""Introduction."""

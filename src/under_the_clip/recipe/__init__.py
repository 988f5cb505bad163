"""Recipe."""

"""The front page: what each paper claimed, and what is left of it."""

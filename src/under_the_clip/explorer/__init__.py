"""The explorer: every stored accuracy against its epsilon, as the reader picks."""

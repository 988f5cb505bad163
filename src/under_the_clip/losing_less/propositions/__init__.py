"""The propositions of losing less."""

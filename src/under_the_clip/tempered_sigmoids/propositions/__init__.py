"""The propositions of tempered sigmoids."""

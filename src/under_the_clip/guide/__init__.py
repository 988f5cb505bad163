"""The guide: what a practitioner chooses, with what the study's runs say of it."""

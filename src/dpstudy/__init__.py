"""Under the Clip: four remedies for differentially private SGD, re-run, audited and compared."""

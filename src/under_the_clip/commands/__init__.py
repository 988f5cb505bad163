"""What the commands of `dpstudy` share, and those that have a file of their own."""

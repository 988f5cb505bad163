"""The recipe's experiments and figures in chapter 8; the recipe itself is `dpstudy.recipe`."""

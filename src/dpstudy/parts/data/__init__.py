"""Datasets: where images and labels come from, and features of them that are computed once."""

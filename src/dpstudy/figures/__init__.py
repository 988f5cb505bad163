"""Figures and tables: from stored results, published values and accountants to a page."""

"""Chapter 9: what a private step costs, here and in other libraries."""

"""Proves a fork equal to stock: the same generated requests to both, and every stage compared."""

RESULT_NAME = "verification.json"
"""File of a fork with the last result of each level."""

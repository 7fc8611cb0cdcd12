"""Proves a fork equal to stock: the same generated requests to both, and every stage compared."""

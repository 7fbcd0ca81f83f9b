"""Constrained clustering on the sphere."""

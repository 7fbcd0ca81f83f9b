"""Clustering of embeddings: assigners, and the number of clusters."""

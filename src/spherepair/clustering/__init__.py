"""Clustering of embeddings: labels and centers, nearest neighbors, and the number of clusters."""

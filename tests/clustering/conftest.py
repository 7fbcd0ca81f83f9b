from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest


def draw_embedding(n_clusters, *, n_components=20, n_pairs=3000, noise=0.2, n_rows=1000, shares=None, seed=0):
    """Noisy clusters around orthogonal directions, with random pairs labeled by cluster."""
    rng = np.random.default_rng(seed)
    if n_clusters <= n_components:
        axes = np.linalg.qr(rng.normal(size=(n_components, n_components)))[0][:n_clusters]
    else:
        axes = rng.normal(size=(n_clusters, n_components))
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    labels = rng.choice(n_clusters, n_rows, p=shares)
    rows = axes[labels] + noise * rng.normal(size=(n_rows, n_components)) / n_components**0.5
    left, right = rng.integers(n_rows, size=(2, n_pairs))
    left, right = left[left != right], right[left != right]
    pairs = SimpleNamespace(
        left=left,
        right=right,
        is_must_link=labels[left] == labels[right],
        weight=np.ones(len(left), dtype=np.float32),
    )
    return SimpleNamespace(rows=rows, pairs=pairs, labels=labels)


@pytest.fixture
def embedding():
    return draw_embedding


def keep_pairs(pairs, kept):
    """Some of the pairs, by position or mask."""
    names = ("left", "right", "is_must_link", "weight")
    return SimpleNamespace(**{name: getattr(pairs, name)[kept] for name in names})


@pytest.fixture
def only():
    return keep_pairs

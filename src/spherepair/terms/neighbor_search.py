"""Approximate nearest neighbors of all rows, by trees of random hyperplanes, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

#: Most rows in a leaf, and number of trees.
LEAF_ROWS = 128
TREES = 4
#: Similarities and row values held at once, by kind of device: 8 and 128 MiB.
CHUNK_ENTRIES = {"cpu": 2**21, "cuda": 2**25}
#: Row values gathered at once for one level of the trees; with many rows fewer trees are grown at once.
GROWN_ENTRIES = 2**25


def nearest_neighbors(x: Tensor, n_neighbors: int, *, generator: torch.Generator) -> Tensor:
    """Row numbers of the approximate neighbors of each row, nearest first.

    Trees of random hyperplanes, with exact search inside their leaves; exact if all rows fit into one leaf.
    All leaves of all trees have the same size, so that one level of all trees is a batched matrix product and
    a sort, on any device. Time grows with n log n, memory with n.

    Parameters
    ----------
    x : Tensor of shape (n, D)
    n_neighbors : int
        Below n.
    generator : torch.Generator
        On the device of ``x``.

    Returns
    -------
    Tensor of shape (n, n_neighbors), int64

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [5.0], [5.5]])
    >>> nearest_neighbors(x, 1, generator=torch.Generator().manual_seed(0))[:, 0].tolist()
    [1, 0, 3, 2]
    """
    if n_neighbors >= len(x):
        raise ValueError(
            f"n_neighbors must be below the number of rows, {len(x)}, got {n_neighbors} instead."
        )
    n_trees = 1 if len(x) <= LEAF_ROWS else TREES
    at_once = max(1, GROWN_ENTRIES // x.numel())
    padded = torch.cat([x, x.new_zeros(1, x.shape[1])])
    found = [
        _search(padded, _leaves(padded, min(at_once, n_trees - first), generator), n_neighbors)
        for first in range(0, n_trees, at_once)
    ]
    scores, places = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
    return _best(scores, places, n_neighbors)


def _leaves(padded: Tensor, n_trees: int, generator: torch.Generator) -> Tensor:
    """Row numbers in the leaves of trees, (n_trees, n_leaves, size); n marks an empty place."""
    n, device = len(padded) - 1, padded.device
    depth = max(0, (-(-n // LEAF_ROWS) - 1).bit_length())
    size = -(-n // 2**depth)
    # In random order, so that trees divide even identical rows differently.
    places = torch.full((n_trees, 2**depth * size), n, device=device)
    for tree in places:
        tree[:n] = torch.randperm(n, generator=generator, device=device)
    for level in range(depth):
        nodes = places.view(n_trees * 2**level, -1)
        # The difference of two rows of a node is a direction in which its rows differ.
        ends = torch.randint(n // 2**depth, (len(nodes), 2), generator=generator, device=device)
        first, second = padded[nodes.gather(1, ends)].unbind(dim=1)
        along = (padded[nodes] @ (first - second)[:, :, None])[:, :, 0]
        along = along.masked_fill(nodes == n, torch.inf)  # empty places stay at the end
        places = nodes.gather(1, along.argsort(dim=1, stable=True))
    return places.view(n_trees, 2**depth, size)


def _search(padded: Tensor, leaves: Tensor, n_neighbors: int) -> tuple[Tensor, Tensor]:
    """Scores and row numbers, (n, n_trees * k), of the nearest rows in the leaves of each row."""
    n, device = len(padded) - 1, padded.device
    n_trees, _, size = leaves.shape
    k = min(n_neighbors, size - 1)
    scores = padded.new_full((n_trees * (n + 1), n_neighbors), -torch.inf)
    # A row alone in its leaf is its own neighbor.
    places = torch.arange(n + 1, device=device)[:, None].repeat(n_trees, n_neighbors)
    itself = torch.eye(size, dtype=torch.bool, device=device)
    lines = leaves + (n + 1) * torch.arange(n_trees, device=device)[:, None, None]
    half_square = padded.square().sum(dim=1) / 2
    most = CHUNK_ENTRIES.get(device.type, CHUNK_ENTRIES["cpu"])
    at_once = max(1, most // (size * (size + padded.shape[1])))
    parts = (torch.split(t.flatten(0, 1), at_once) for t in (leaves, lines))
    for chunk, to in zip(*parts, strict=True):
        rows = padded[chunk]
        # Largest where the squared distance |a|² - 2 a·b + |b|² is smallest.
        score = torch.baddbmm(-half_square[chunk][:, None], rows, rows.transpose(1, 2))
        score = score.masked_fill_(itself | (chunk == n)[:, None], -torch.inf)
        best = score.topk(k, dim=2)
        found = torch.gather(chunk[:, None].expand_as(score), 2, best.indices)
        found = torch.where(best.values > -torch.inf, found, chunk[:, :, None])
        scores[to.flatten(), :k] = best.values.flatten(0, 1)
        places[to.flatten(), :k] = found.flatten(0, 1)
    in_trees = (t.view(n_trees, n + 1, n_neighbors)[:, :n] for t in (scores, places))
    scores, places = (t.transpose(0, 1).reshape(n, -1) for t in in_trees)
    return scores, places


def _best(scores: Tensor, places: Tensor, n_neighbors: int) -> Tensor:
    """The best distinct neighbors among those of all trees."""
    order = places.argsort(dim=1, stable=True)
    scores, places = scores.gather(1, order), places.gather(1, order)
    again = torch.zeros_like(scores, dtype=torch.bool)
    again[:, 1:] = (places[:, 1:] == places[:, :-1]) & (scores[:, :-1] > -torch.inf)
    chosen = scores.masked_fill(again, -torch.inf).topk(n_neighbors, dim=1).indices
    return places.gather(1, chosen)

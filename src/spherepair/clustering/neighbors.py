"""Approximate nearest neighbours: rows are parted by random hyperplanes, and compared where they end up.

All leaves of a tree have the same size, so that a tree is some sorting and one batched matrix product, on
any device. Time and memory grow with n log n and n.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Rows compared with each other in one leaf, at most, and how many trees are grown.
LEAF_ROWS = 128
TREES = 4
#: Leaves compared at once; 128 of them are 8 MiB of similarities.
CHUNK_LEAVES = 128


def nearest_neighbors(x: Tensor, n_neighbors: int, *, generator: torch.Generator) -> Tensor:
    """Positions of rows near each row, nearest first; exact where all rows fit into one leaf.

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
        raise ValueError(f"n_neighbors={n_neighbors} must be below the {len(x)} rows.")
    n_trees = 1 if len(x) <= LEAF_ROWS else TREES
    found = [_search(x, _leaves(x, generator), n_neighbors) for _ in range(n_trees)]
    scores, places = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
    return _best(scores, places, n_neighbors)


def _leaves(x: Tensor, generator: torch.Generator) -> Tensor:
    """Rows (n_leaves, size) of a tree; n stands for a place that is empty."""
    n = len(x)
    depth = max(0, (-(-n // LEAF_ROWS) - 1).bit_length())
    size = -(-n // 2**depth)
    # In random order, so that trees part rows differently even where rows are identical.
    places = torch.full((2**depth * size,), n, device=x.device)
    places[:n] = torch.randperm(n, generator=generator, device=x.device)
    padded = torch.cat([x, x.new_zeros(1, x.shape[1])])
    for level in range(depth):
        nodes = places.view(2**level, -1)
        # The difference of two rows of the node points where its rows differ.
        ends = torch.randint(n // 2**depth, (2, len(nodes)), generator=generator, device=x.device)
        across = torch.arange(len(nodes), device=x.device)
        direction = padded[nodes[across, ends[0]]] - padded[nodes[across, ends[1]]]
        along = torch.einsum("nwd,nd->nw", padded[nodes], direction)
        along = torch.where(nodes == n, torch.inf, along)  # empty places stay at the end
        places = nodes.gather(1, along.argsort(dim=1, stable=True))
    return places.view(2**depth, size)


def _search(x: Tensor, leaves: Tensor, n_neighbors: int) -> tuple[Tensor, Tensor]:
    """Scores and places (n, k) of the nearest rows in the leaf of each row."""
    n, k = len(x), min(n_neighbors, leaves.shape[1] - 1)
    scores = x.new_full((n + 1, n_neighbors), -torch.inf)
    # A row that is alone in its leaf stays with itself.
    places = torch.arange(n + 1, device=x.device)[:, None].repeat(1, n_neighbors)
    padded = torch.cat([x, x.new_zeros(1, x.shape[1])])
    itself = torch.eye(leaves.shape[1], dtype=torch.bool, device=x.device)
    for chunk in torch.split(leaves, CHUNK_LEAVES):
        rows = padded[chunk]
        # Largest where the squared distance |a|² - 2 a·b + |b|² is smallest.
        score = torch.baddbmm(-rows.square().sum(dim=2)[:, None] / 2, rows, rows.transpose(1, 2))
        score = score.masked_fill(itself | (chunk == n)[:, None], -torch.inf)
        best = score.topk(k, dim=2)
        found = torch.gather(chunk[:, None].expand_as(score), 2, best.indices)
        found = torch.where(best.values > -torch.inf, found, chunk[:, :, None])
        scores[chunk.flatten(), :k] = best.values.flatten(0, 1)
        places[chunk.flatten(), :k] = found.flatten(0, 1)
    return scores[:n], places[:n]


def _best(scores: Tensor, places: Tensor, n_neighbors: int) -> Tensor:
    """The best different ones of several answers."""
    order = places.argsort(dim=1, stable=True)
    scores, places = scores.gather(1, order), places.gather(1, order)
    again = torch.zeros_like(scores, dtype=torch.bool)
    again[:, 1:] = (places[:, 1:] == places[:, :-1]) & (scores[:, :-1] > -torch.inf)
    chosen = scores.masked_fill(again, -torch.inf).topk(n_neighbors, dim=1).indices
    return places.gather(1, chosen)

"""Confident pseudo-pairs: what the present clusters say about rows without pairs.

Every few epochs the embedding is cut into clusters; a refinement begins with those it has. The rows nearest
to their own centre, measured against the second nearest, count as known: the same share of every cluster, so
that small ones have their say. All pairs among the known rows of a step then enter the loss as if somebody
had given them, but only where the true pairs do not object: two clusters between which must-links run are not
pushed apart (one class was cut in two), and a cluster with cannot-links inside is not pulled together (it
holds two classes). So a wrong number of clusters does little harm. The rows of the pairs themselves are poor
witnesses, since training has put them where they belong; what a pair says is asked of their neighbours, which
no pair has moved when they are looked up (but in a refinement, which starts from an embedding that pairs have
made).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.clustering.kmeans import kmeans
from spherepair.estimators.neighbor_term import Embed
from spherepair.losses import PairGroup, shares
from spherepair.training.batches import Batch, PairTensors
from spherepair.training.randomness import torch_generator

#: Rows of a step among which pairs are made: all pairs of them.
MOST_ANCHORS = 256
#: True pairs beside which pseudo-pairs have their full weight; beside more it falls in proportion, since what
#: they add does not grow, and beside fewer as well, since clusters cannot be trusted then.
FULL_WEIGHT_PAIRS = 1000
#: Epochs of a fit on the true pairs alone, and epochs between two looks at the clusters.
FIRST_EPOCH, EVERY = 10, 10
#: Rounds of k-means at a look, on all rows, after as many among restarts.
LOOK_ROUNDS = 20
#: Share of every cluster that counts as known.
KNOWN = 0.7
#: Share of the votes on two clusters (or on one) that must agree with the pseudo-pairs there: of each true
#: pair one for every neighbour of its rows.
AGREEMENT = 0.65
UNKNOWN = -1


class PseudoPairs(nn.Module):
    """Pairs among confidently clustered rows, with weight ``weight`` or less.

    Parameters
    ----------
    n_rows : int
        Of the table.
    rows : Tensor of shape (m,)
        Positions of the rows that are looked at.
    pairs : PairTensors
        The true pairs.
    weight : float
    n_clusters : int
        Two or more.
    first_epoch : int
        Epochs on the true pairs alone.
    seed : int
    device : torch.device
        Of the network.
    neighbors : Tensor of shape (m, 1 + k), optional
        Positions of these rows, in order, and of their neighbours, which speak for them where pairs are
        asked; read anew at every look. Rows that are not in it speak for themselves.
    centers : Tensor of shape (n_clusters, D), optional
        Unit vectors of the clusters at the start, where they are known; they are looked for otherwise.
    """

    labels: Tensor
    clusters: Tensor
    agrees: Tensor

    def __init__(
        self,
        n_rows: int,
        rows: Tensor,
        pairs: PairTensors,
        *,
        weight: float,
        n_clusters: int,
        first_epoch: int,
        seed: int,
        device: torch.device,
        neighbors: Tensor | None = None,
        centers: Tensor | None = None,
    ) -> None:
        super().__init__()
        abundance = len(pairs) / FULL_WEIGHT_PAIRS
        self.weight = weight * min(abundance, 1.0 / max(1.0, abundance))
        self._n_clusters, self._first, self._seed = n_clusters, first_epoch, seed
        self._pairs, self._rows, self._neighbors = pairs.to(device), rows.to(device), neighbors
        self._centers_at_start = centers if centers is None else centers.to(device)
        self._ends = torch.cat([self._pairs.left, self._pairs.right])
        # Of a large table a sample is looked at; ends of pairs are besides.
        self._besides = torch.unique(self._ends) if len(rows) < n_rows else None
        # All keep their addresses: captured steps read them.
        nothing = torch.full((n_rows,), UNKNOWN, dtype=torch.int32, device=device)
        self.register_buffer("labels", nothing)  # of rows that count as known
        self.register_buffer("clusters", nothing.clone())  # of all rows looked at
        self.register_buffer("agrees", torch.zeros(n_clusters, n_clusters, dtype=torch.bool, device=device))

    def on_epoch_start(self, epoch: int, embed: Embed) -> None:
        """Look at the clusters when it is time; where rows are on a GPU, without waiting for it."""
        if epoch < self._first or (epoch - self._first) % EVERY:
            return
        z = embed(self._rows)
        centers = self._centers(epoch, z)
        similarity = z @ centers.T
        self.labels[self._rows] = confident_labels(similarity, KNOWN).to(self.labels.dtype)
        self.clusters[self._rows] = similarity.argmax(dim=1).to(self.clusters.dtype)
        if self._besides is not None:
            nearest = (embed(self._besides) @ centers.T).argmax(dim=1)
            self.clusters[self._besides] = nearest.to(self.clusters.dtype)
        votes = torch.stack(self.clusters[self._witnesses(self._ends)].long().chunk(2))
        self.agrees.copy_(_agreement(votes, self._pairs.is_must_link, self._n_clusters))

    def _centers(self, epoch: int, z: Tensor) -> Tensor:
        if epoch == 0 and self._centers_at_start is not None:
            return self._centers_at_start
        generator = torch_generator(self._seed, "pseudo-pairs", epoch, device=z.device)
        found = kmeans(
            z, self._n_clusters, generator=generator, n_init=5, max_iter=LOOK_ROUNDS, tol=None
        )  # never waits for a GPU
        return F.normalize(found, dim=1)

    def _witnesses(self, ends: Tensor) -> Tensor:
        """Rows (n, k) that speak for the rows at these positions: their neighbours, or they themselves."""
        if self._neighbors is None:
            return ends[:, None]
        table = self._neighbors.to(ends.device)
        lines = torch.searchsorted(table[:, 0].contiguous(), ends.contiguous()).clamp(max=len(table) - 1)
        has_neighbors = table[lines, 0] == ends
        return torch.where(has_neighbors[:, None], table[lines, 1:], ends[:, None])

    def differ(self, left: Tensor, right: Tensor) -> Tensor:
        """Whether rows at these positions are in different clusters, and true pairs do not object to that."""
        first, second = self.clusters[left].long(), self.clusters[right].long()
        are_seen = (first >= 0) & (second >= 0)
        return are_seen & (first != second) & self.agrees[first.clamp(min=0), second.clamp(min=0)]

    def pairs(self, batch: Batch, z: Tensor) -> PairGroup:
        """All pairs of known rows among the anchors; ``z`` are all rows."""
        rows = batch.anchors(z)[:MOST_ANCHORS]
        labels = self.labels.index_select(0, batch.row_index)[: len(rows)].long()
        n, n_dims = rows.shape
        known = labels.clamp(min=0)
        counts = self.agrees[known[:, None], known] & (labels[:, None] >= 0) & (labels >= 0)
        counts = counts & ~torch.eye(n, dtype=torch.bool, device=z.device)
        left = rows[:, None].expand(n, n, n_dims).reshape(-1, n_dims)
        right = rows.expand(n, n, n_dims).reshape(-1, n_dims)
        is_must_link = (labels[:, None] == labels).flatten()
        return PairGroup(left, right, is_must_link, self.weight * shares(counts.flatten()))


def confident_labels(similarity: Tensor, share: float) -> Tensor:
    """The nearest cluster of the most confident ``share`` of each cluster, -1 for other rows.

    Parameters
    ----------
    similarity : Tensor of shape (n, K)
        Of rows and centres; confidence is how far the nearest leads the second nearest.
    share : float

    Examples
    --------
    >>> similarity = torch.tensor([[1.0, 0.0], [0.6, 0.5], [0.9, 0.2], [0.0, 1.0]])
    >>> confident_labels(similarity, 0.5).tolist()  # of two or three rows, two; of one, one
    [0, -1, 0, 1]
    """
    best = similarity.topk(2, dim=1)
    labels, lead = best.indices[:, 0], best.values[:, 0] - best.values[:, 1]
    order = lead.argsort(descending=True, stable=True)
    order = order[labels[order].argsort(stable=True)]  # by cluster, the most confident first
    sizes = _counts(labels, similarity.shape[1])
    starts = sizes.cumsum(0) - sizes
    rank = torch.arange(len(order), device=order.device) - starts[labels[order]]
    is_known = rank < (share * sizes[labels[order]]).ceil()
    return torch.full_like(labels, UNKNOWN).scatter(0, order, torch.where(is_known, labels[order], UNKNOWN))


def _agreement(votes: Tensor, is_must_link: Tensor, n_clusters: int) -> Tensor:
    """Whether the true pairs agree (K, K) that two clusters differ, and that one is one.

    ``votes`` (2, n, k) are the clusters of those who speak for the left and the right ends.
    """
    low, high = votes.amin(dim=0), votes.amax(dim=0)
    cell = low * n_clusters + high
    n_all = _counts(cell.flatten(), n_clusters**2).view(n_clusters, n_clusters)
    is_must = is_must_link[:, None].expand_as(cell).flatten().long()
    n_must = _counts(cell.flatten(), n_clusters**2, is_must).view(n_clusters, n_clusters)
    is_same = torch.eye(n_clusters, dtype=torch.bool, device=votes.device)
    agreeing = torch.where(is_same, n_must, n_all - n_must)
    # One more that agrees: where no pair says anything, the clusters are believed.
    agrees = (agreeing + 1) >= AGREEMENT * (n_all + 1)
    return agrees.triu() | agrees.triu().T


def _counts(places: Tensor, n_places: int, amount: Tensor | None = None) -> Tensor:
    """How often each number below ``n_places`` occurs, or how much of ``amount`` goes with it.

    ``torch.bincount`` would make the host wait for the GPU.
    """
    amount = torch.ones_like(places) if amount is None else amount
    return places.new_zeros(n_places).scatter_add_(0, places, amount)

"""Terms of the loss on rows without pairs: attraction between neighbors, and confident pseudo-pairs.

Neighbors: rows that were alike before training on pairs should stay together. They are looked up once, in the
embedding from which training on pairs starts. Half of the reconstruction rows of a step are then neighbors of
the other half, so that the term needs no further pass through the network. It works without knowing the
clusters or their number. Where pseudo-pairs look at clusters and there are pairs enough to trust them,
neighbors in different clusters attract each other less: these are the neighbors that mislead.

Pseudo-pairs: every few epochs the embedding is cut into clusters; a refinement starts with those it has. The
rows nearest to their own center, relative to the second nearest, count as known: the same share of every
cluster, so that small ones take part. All pairs among the known rows of a step enter the loss like given
pairs, unless the given pairs object: two clusters with must-links between them are not pushed apart (one
class was cut in two), and a cluster with cannot-links inside is not pulled together (it holds two classes).
So a wrong number of clusters does little harm. Training has put the rows of the given pairs where they
belong, so these rows cannot tell whether a cluster is right. Their neighbors vote instead: no pair had moved
them when they were looked up (except in a refinement, whose embedding was made by pairs).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.clustering.assigners import kmeans
from spherepair.losses import PairGroup, shares
from spherepair.terms.neighbor_search import nearest_neighbors
from spherepair.training.batches import Batch, PairTensors
from spherepair.training.hardware import torch_generator

#: Neighbors of a row.
N_NEIGHBORS = 5
#: Rows that terms look at; larger tables are sampled, and neighbors are sought within the sample.
MAX_ROWS = 200_000
#: With more pairs than these, the weight of neighbors in different clusters falls in proportion.
TRUSTED_PAIRS = 1000
#: Rows of a step among which all pairs are made.
MAX_ROWS_OF_STEP = 256
#: Number of given pairs with which pseudo-pairs have their full weight. With more it falls in proportion,
#: since pseudo-pairs add no more than before, and with fewer as well, since clusters cannot be trusted then.
FULL_WEIGHT_PAIRS = 1000
#: Epochs of a fit before clusters are used, and epochs between two updates of the clusters.
FIRST_EPOCH, EVERY = 10, 10
#: Iterations of k-means on all rows at an update, after as many among restarts.
KMEANS_ITERATIONS = 20
#: Share of every cluster that counts as known.
KNOWN = 0.7
#: Share of the votes on two clusters (or on one) that must agree with the pseudo-pairs there. Each given pair
#: has one vote for every neighbor of its rows.
AGREEMENT = 0.65
UNKNOWN = -1

#: From positions of rows to their unit embeddings by the present network.
Embed = Callable[[Tensor], Tensor]
#: From positions of rows, left and right, to whether they are known to be in different clusters.
Differ = Callable[[Tensor, Tensor], Tensor]


class NeighborAttraction(nn.Module):
    """A must-link of weight ``weight`` between each row and one of its neighbors.

    Parameters
    ----------
    rows : Tensor of shape (m,)
        Positions of the rows that have neighbors and are neighbors, sorted; at least three.
    weight : float
    seed : int
    """

    table: Tensor

    def __init__(self, rows: Tensor, *, weight: float, seed: int) -> None:
        super().__init__()
        self.weight, self._seed = weight, seed
        self._differ: Differ | None = None
        self._factor_apart = 1.0
        n_neighbors = min(N_NEIGHBORS, len(rows) - 1)
        # (m, 1 + k): a row and its neighbors; a buffer, so that a resumed fit has them from its checkpoint.
        self.register_buffer("table", rows[:, None].repeat(1, 1 + n_neighbors))

    def weaken_where(self, differ: Differ, n_pairs: int) -> None:
        """From now on weigh neighbors that ``differ`` less, if informative pairs are enough to trust them."""
        if n_pairs > TRUSTED_PAIRS:
            self._differ, self._factor_apart = differ, TRUSTED_PAIRS / n_pairs

    def on_epoch_start(self, epoch: int, embed: Embed) -> None:
        """Look up the neighbors before the first epoch."""
        if epoch > 0:
            return
        rows = self.table[:, 0].clone()
        z = embed(rows)
        generator = torch_generator(self._seed, "neighbours", device=z.device)  # spelling fixes the draws
        found = nearest_neighbors(z, self.table.shape[1] - 1, generator=generator)
        self.table[:, 1:] = rows[found.to(rows.device)]

    def pairs(self, batch: Batch, z: Tensor) -> PairGroup:
        """Must-links between rows and their neighbors; ``z`` are embeddings of the reconstruction rows."""
        left, right = batch.anchors(z), batch.neighbors(z)
        together = torch.ones(len(left), dtype=torch.bool, device=z.device)
        share = torch.full((len(left),), self.weight / max(1, len(left)), device=z.device)
        if self._differ is not None:
            apart = self._differ(batch.anchors(batch.row_index), batch.neighbors(batch.row_index))
            share = torch.where(apart, self._factor_apart * share, share)
        return PairGroup(left, right, together, share)


class PseudoPairs(nn.Module):
    """Pairs among confidently clustered rows, with weight ``weight`` or less.

    Parameters
    ----------
    n_rows : int
        Number of rows of the table.
    rows : Tensor of shape (m,)
        Positions of the rows to cluster.
    pairs : PairTensors
        The given pairs.
    weight : float
    n_clusters : int
        At least two.
    first_epoch : int
        Number of epochs on the given pairs alone.
    seed : int
    device : torch.device
        Device of the network.
    neighbors : Tensor of shape (m, 1 + k), optional
        Positions of these rows, sorted, and of their neighbors, which vote for them; read at every update.
        Rows that are not in it vote for themselves.
    centers : Tensor of shape (n_clusters, D), optional
        Unit vectors of the clusters at the start, where they are known.
    n_informative : int, optional
        Number of pairs that tell something new; by default all.
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
        n_informative: int | None = None,
    ) -> None:
        super().__init__()
        abundance = (len(pairs) if n_informative is None else n_informative) / FULL_WEIGHT_PAIRS
        self.weight = weight * min(abundance, 1.0 / max(1.0, abundance))
        self._n_clusters, self._first, self._seed = n_clusters, first_epoch, seed
        self._device, self._rows, self._neighbors = device, rows.to(device), neighbors
        self.listen_to(pairs)
        self._start_centers = centers if centers is None else centers.to(device)
        # Of a large table a sample is clustered; rows in pairs are assigned to clusters in any case.
        self._more_rows = torch.unique(self._ends) if len(rows) < n_rows else None
        # All keep their addresses: captured steps read them.
        nothing = torch.full((n_rows,), UNKNOWN, dtype=torch.int32, device=device)
        self.register_buffer("labels", nothing)  # of known rows
        self.register_buffer("clusters", nothing.clone())  # of all clustered rows
        self.register_buffer("agrees", torch.zeros(n_clusters, n_clusters, dtype=torch.bool, device=device))

    def listen_to(self, pairs: PairTensors) -> None:
        """From now on let these pairs say whether clusters are right."""
        self._pairs = pairs.to(self._device)
        self._ends = torch.cat([self._pairs.left, self._pairs.right])

    def on_epoch_start(self, epoch: int, embed: Embed) -> None:
        """Update the clusters when it is time; where rows are on a GPU, without waiting for it."""
        if epoch < self._first or (epoch - self._first) % EVERY:
            return
        z = embed(self._rows)
        centers = self._centers(epoch, z)
        similarity = z @ centers.T
        self.labels[self._rows] = confident_labels(similarity, KNOWN).to(self.labels.dtype)
        self.clusters[self._rows] = similarity.argmax(dim=1).to(self.clusters.dtype)
        if self._more_rows is not None:
            nearest = (embed(self._more_rows) @ centers.T).argmax(dim=1)
            self.clusters[self._more_rows] = nearest.to(self.clusters.dtype)
        votes = torch.stack(self.clusters[self._voters(self._ends)].long().chunk(2))
        self.agrees.copy_(_agreement(votes, self._pairs.is_must_link, self._n_clusters))

    def _centers(self, epoch: int, z: Tensor) -> Tensor:
        if epoch == 0 and self._start_centers is not None:
            return self._start_centers
        generator = torch_generator(self._seed, "pseudo-pairs", epoch, device=z.device)
        found = kmeans(
            z, self._n_clusters, generator=generator, n_init=5, max_iter=KMEANS_ITERATIONS, tol=None
        )  # never waits for a GPU
        return F.normalize(found, dim=1)

    def _voters(self, ends: Tensor) -> Tensor:
        """Rows (n, k) that vote for the rows at these positions: their neighbors, or they themselves."""
        if self._neighbors is None:
            return ends[:, None]
        table = self._neighbors.to(ends.device)
        lines = torch.searchsorted(table[:, 0].contiguous(), ends.contiguous()).clamp(max=len(table) - 1)
        has_neighbors = table[lines, 0] == ends
        return torch.where(has_neighbors[:, None], table[lines, 1:], ends[:, None])

    def differ(self, left: Tensor, right: Tensor) -> Tensor:
        """Whether rows are in different clusters, and the given pairs agree that these differ."""
        first, second = self.clusters[left].long(), self.clusters[right].long()
        are_clustered = (first >= 0) & (second >= 0)
        return are_clustered & (first != second) & self.agrees[first.clamp(min=0), second.clamp(min=0)]

    def pairs(self, batch: Batch, z: Tensor) -> PairGroup:
        """All pairs among the known rows of the step; ``z`` are the embeddings of its reconstruction rows."""
        rows = batch.anchors(z)[:MAX_ROWS_OF_STEP]
        labels = self.labels.index_select(0, batch.row_index)[: len(rows)].long()
        return (self._only_known if z.device.type == "cpu" else self._all)(rows, labels)

    def _only_known(self, rows: Tensor, labels: Tensor) -> PairGroup:
        """The pairs that count, each once."""
        known = (labels >= 0).nonzero().flatten()
        left, right = known[torch.triu_indices(len(known), len(known), offset=1)]
        counts = self.agrees[labels[left], labels[right]]
        left, right = left[counts], right[counts]
        share = self.weight * shares(rows.new_ones(len(left)))
        return PairGroup(rows[left], rows[right], labels[left] == labels[right], share)

    def _all(self, rows: Tensor, labels: Tensor) -> PairGroup:
        """The same loss from all pairs, some without weight: shapes in captured steps do not change."""
        n, n_dims = rows.shape
        known = labels.clamp(min=0)
        counts = self.agrees[known[:, None], known] & (labels[:, None] >= 0) & (labels >= 0)
        counts = counts & ~torch.eye(n, dtype=torch.bool, device=rows.device)
        left = rows[:, None].expand(n, n, n_dims).reshape(-1, n_dims)
        right = rows.expand(n, n, n_dims).reshape(-1, n_dims)
        is_must_link = (labels[:, None] == labels).flatten()
        return PairGroup(left, right, is_must_link, self.weight * shares(counts.flatten()))


def term_rows(n_rows: int, ends: Tensor, *, seed: int, device: torch.device) -> Tensor:
    """Positions of all rows, sorted, or of a sample: rows in pairs (``ends``) first, then random ones."""
    if n_rows <= MAX_ROWS:
        return torch.arange(n_rows, device=device)
    order = torch.randperm(n_rows, generator=torch_generator(seed, "sampled rows"))
    is_end = torch.zeros(n_rows, dtype=torch.bool)
    is_end[ends.cpu()] = True
    first = order[is_end[order]]
    return torch.cat([first, order[~is_end[order]]])[:MAX_ROWS].sort().values.to(device)


def confident_labels(similarity: Tensor, share: float) -> Tensor:
    """The nearest cluster of the most confident ``share`` of each cluster, -1 for other rows.

    Parameters
    ----------
    similarity : Tensor of shape (n, K)
        Similarity of rows and centers; confidence is the margin between the nearest and the second nearest.
    share : float

    Examples
    --------
    >>> similarity = torch.tensor([[1.0, 0.0], [0.6, 0.5], [0.9, 0.2], [0.0, 1.0]])
    >>> confident_labels(similarity, 0.5).tolist()  # of two or three rows, two; of one, one
    [0, -1, 0, 1]
    """
    best = similarity.topk(2, dim=1)
    labels, margin = best.indices[:, 0], best.values[:, 0] - best.values[:, 1]
    order = margin.argsort(descending=True, stable=True)
    order = order[labels[order].argsort(stable=True)]  # by cluster, the most confident first
    sizes = _counts(labels, similarity.shape[1])
    starts = sizes.cumsum(0) - sizes
    rank = torch.arange(len(order), device=order.device) - starts[labels[order]]
    is_known = rank < (share * sizes[labels[order]]).ceil()
    return torch.full_like(labels, UNKNOWN).scatter(0, order, torch.where(is_known, labels[order], UNKNOWN))


def _agreement(votes: Tensor, is_must_link: Tensor, n_clusters: int) -> Tensor:
    """Whether the given pairs agree (K, K) that two clusters differ, and that one cluster is one class.

    ``votes`` (2, n, k) are the clusters of the rows that vote for the left and the right ends.
    """
    low, high = votes.amin(dim=0), votes.amax(dim=0)
    cell = low * n_clusters + high
    n_all = _counts(cell.flatten(), n_clusters**2).view(n_clusters, n_clusters)
    is_must = is_must_link[:, None].expand_as(cell).flatten().long()
    n_must = _counts(cell.flatten(), n_clusters**2, is_must).view(n_clusters, n_clusters)
    is_same = torch.eye(n_clusters, dtype=torch.bool, device=votes.device)
    agreeing = torch.where(is_same, n_must, n_all - n_must)
    # One more vote that agrees: without any votes the clusters are trusted.
    agrees = (agreeing + 1) >= AGREEMENT * (n_all + 1)
    return agrees.triu() | agrees.triu().T


def _counts(places: Tensor, n_places: int, amount: Tensor | None = None) -> Tensor:
    """How often each number below ``n_places`` occurs, or the sum of ``amount`` there.

    ``torch.bincount`` would make the host wait for the GPU.
    """
    amount = torch.ones_like(places) if amount is None else amount
    return places.new_zeros(n_places).scatter_add_(0, places, amount)

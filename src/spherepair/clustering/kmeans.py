"""K-means on the device of the embedding: all restarts at once, the same labels every time.

scikit-learn's KMeans adds up centres in the order in which its threads finish, so two runs may round
differently, and it knows no GPU. Here every restart is a block of columns of one matrix product,
sums are matrix products too, and rows are taken in chunks, so memory does not grow with n x K.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

#: Entries of a chunk's distance matrix; 2**23 floats are 32 MiB.
CHUNK_ENTRIES = 2**23
#: Above this number of rows the restarts compete on a random sample and the winner goes on with all.
CONTEST_ROWS = 16_384
#: At least so many rows for each cluster in that sample.
ROWS_PER_CLUSTER = 100


@dataclass(frozen=True)
class KMeansResult:
    """Centres (K, D) and the mean squared distance of the rows to them."""

    centers: Tensor
    inertia: float


def kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    generator: torch.Generator,
    n_init: int = 20,
    max_iter: int = 300,
    tol: float = 1e-4,
) -> KMeansResult:
    """Lloyd's algorithm from k-means++ starts, the best of ``n_init``.

    Parameters
    ----------
    x : Tensor of shape (n, D), float32
    n_clusters : int
    generator : torch.Generator
        On the device of ``x``.
    n_init, max_iter, tol
        As in scikit-learn: restarts, iterations, and the squared shift of the centres, relative to
        the variance of the columns, at which to stop.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> result = kmeans(x, 2, generator=torch.Generator().manual_seed(0))
    >>> sorted(round(c, 2) for c in result.centers[:, 0].tolist())
    [0.05, 5.05]
    """
    threshold = tol * float(x.var(dim=0, unbiased=False).mean())
    contest = x
    most = max(CONTEST_ROWS, ROWS_PER_CLUSTER * n_clusters)
    if len(x) > most:
        contest = x[torch.randperm(len(x), generator=generator, device=x.device)[:most]]
    centers = _plus_plus(contest, n_clusters, n_init, generator)  # (R, K, D)
    centers, inertia = _lloyd(contest, centers, max_iter, threshold)
    best = centers[inertia.argmin()][None]
    if contest is not x:
        best, inertia = _lloyd(x, best, max_iter, threshold)
    return KMeansResult(best[0], float(inertia.min()))


def _plus_plus(x: Tensor, n_clusters: int, n_init: int, generator: torch.Generator) -> Tensor:
    """Each next centre is a row drawn with probability proportional to its squared distance."""
    chosen = torch.randint(len(x), (n_init,), generator=generator, device=x.device)
    centers = [x[chosen]]  # each (R, D)
    nearest = torch.full((n_init, len(x)), torch.inf, device=x.device)
    for _ in range(n_clusters - 1):
        nearest = torch.minimum(nearest, torch.cdist(centers[-1], x).square())
        mass = nearest.cumsum(dim=1, dtype=torch.float64)
        draw = torch.rand(n_init, 1, generator=generator, device=x.device, dtype=torch.float64)
        chosen = torch.searchsorted(mass, draw * mass[:, -1:]).clamp(max=len(x) - 1)
        centers.append(x[chosen[:, 0]])
    return torch.stack(centers, dim=1)


def _lloyd(x: Tensor, centers: Tensor, max_iter: int, threshold: float) -> tuple[Tensor, Tensor]:
    """Move the centres of all restarts until none of them moves any more."""
    for _ in range(max_iter):
        sums, counts = _sums(x, centers)
        # An empty cluster keeps its centre; the competition between restarts weeds it out.
        moved = torch.where(counts[..., None] > 0, sums / counts.clamp(min=1)[..., None], centers)
        shift = (moved - centers).square().sum(dim=(1, 2))
        centers = moved
        if bool((shift <= threshold).all()):
            break
    return centers, _inertia(x, centers)


def _sums(x: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Sums (R, K, D) and counts (R, K) of the rows nearest to each centre."""
    sums, counts = torch.zeros_like(centers), torch.zeros_like(centers[..., 0])
    for chunk, score in scores(x, centers):
        nearest = score.max(dim=2, keepdim=True).indices  # faster than argmax
        one_hot = torch.zeros_like(score).scatter_(2, nearest, 1.0).view(len(chunk), -1)
        sums += (one_hot.T @ chunk).view(sums.shape)
        counts += one_hot.sum(dim=0).view(counts.shape)
    return sums, counts


def _inertia(x: Tensor, centers: Tensor) -> Tensor:
    """Mean squared distance (R,) of the rows to the nearest centre."""
    gain = torch.zeros(len(centers), device=x.device, dtype=torch.float64)
    for _, score in scores(x, centers):
        gain += score.max(dim=2).values.sum(dim=0, dtype=torch.float64)
    return (x.square().sum(dtype=torch.float64) - 2 * gain) / len(x)


def scores(x: Tensor, centers: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of rows (m, D) and their scores (m, R, K): greatest for the nearest centre of each restart."""
    flat = centers.reshape(-1, centers.shape[-1])
    half_square = flat.square().sum(dim=1) / 2
    for chunk in torch.split(x, max(1, CHUNK_ENTRIES // len(flat))):
        yield chunk, torch.addmm(-half_square, chunk, flat.T).view(len(chunk), *centers.shape[:2])

"""K-means on the device of the embedding: all restarts at once, the same labels every time.

scikit-learn's KMeans adds up centres in the order in which its threads finish, so two runs may round
differently, and it knows no GPU. Here every restart is a block of columns of one matrix product,
sums are matrix products too, and rows are taken in chunks, so memory does not grow with n x K.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

#: Entries of a chunk's distance matrix; 2**23 floats are 32 MiB.
CHUNK_ENTRIES = 2**23
#: Restarts compete for so many rounds, then the best goes on alone.
CONTEST_ROUNDS = 30
#: Above this number of rows they compete on a random sample, of so many rows for each cluster at least.
CONTEST_ROWS, ROWS_PER_CLUSTER = 16_384, 100


def kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    generator: torch.Generator,
    n_init: int = 20,
    max_iter: int = 300,
    tol: float | None = 1e-4,
) -> Tensor:
    """Centres (K, D) by Lloyd's algorithm from k-means++ starts, the most promising of ``n_init``.

    Parameters
    ----------
    x : Tensor of shape (n, D), float32
    n_clusters : int
    generator : torch.Generator
        On the device of ``x``.
    n_init : int, default=20
        Restarts; they compete for a while, and the best goes on.
    max_iter : int, default=300
        Rounds of the best at most.
    tol : float or None, default=1e-4
        The squared shift of the centres, relative to the variance of the columns, at which to stop; with
        ``None`` all rounds are done, and the host never waits for a GPU to know whether to go on.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> centers = kmeans(x, 2, generator=torch.Generator().manual_seed(0))
    >>> sorted(round(c, 2) for c in centers[:, 0].tolist())
    [0.05, 5.05]
    """
    threshold = None if tol is None else tol * x.var(dim=0, unbiased=False).mean()
    contest = x
    most = max(CONTEST_ROWS, ROWS_PER_CLUSTER * n_clusters)
    if len(x) > most:
        contest = x[torch.randperm(len(x), generator=generator, device=x.device)[:most]]
    centers = _plus_plus(contest, n_clusters, n_init, generator)  # (R, K, D)
    centers = _lloyd(contest, centers, min(CONTEST_ROUNDS, max_iter), threshold)
    best = centers.index_select(0, _gain(contest, centers).argmax()[None])
    return _lloyd(x, best, max_iter, threshold)[0]


def _plus_plus(x: Tensor, n_clusters: int, n_init: int, generator: torch.Generator) -> Tensor:
    """Each next centre is a row drawn with probability proportional to its squared distance."""
    square = x.square().sum(dim=1)
    chosen = torch.randint(len(x), (n_init,), generator=generator, device=x.device)
    centers = [x[chosen]]  # each (R, D)
    nearest = torch.full((n_init, len(x)), torch.inf, device=x.device)
    for _ in range(n_clusters - 1):
        far = torch.addmm(square[chosen][:, None] + square, centers[-1], x.T, alpha=-2.0).clamp_(min=0.0)
        nearest = torch.minimum(nearest, far)
        mass = nearest.cumsum(dim=1, dtype=torch.float64)
        draw = torch.rand(n_init, 1, generator=generator, device=x.device, dtype=torch.float64)
        chosen = torch.searchsorted(mass, draw * mass[:, -1:]).clamp(max=len(x) - 1)[:, 0]
        centers.append(x[chosen])
    return torch.stack(centers, dim=1)


def _lloyd(x: Tensor, centers: Tensor, max_iter: int, threshold: Tensor | None) -> Tensor:
    """Move the centres of all restarts until none of them moves by more, or as often as they may."""
    for _ in range(max_iter):
        before, centers = centers, _means(x, centers)
        if threshold is not None and bool(_shift(before, centers) <= threshold):
            break
    return centers


def _shift(before: Tensor, centers: Tensor) -> Tensor:
    """By how much, squared, the centres of the restart that moved most have moved."""
    return (centers - before).square().sum(dim=(1, 2)).amax()


def _means(x: Tensor, centers: Tensor) -> Tensor:
    """Means (R, K, D) of the rows nearest to each centre; that of none is where it was.

    The competition between restarts weeds empty clusters out.
    """
    sums, counts = torch.zeros_like(centers), torch.zeros_like(centers[..., :1])
    for chunk, score in scores(x, centers):
        nearest = score.max(dim=2, keepdim=True).indices  # faster than argmax
        one_hot = torch.zeros_like(score).scatter_(2, nearest, 1.0).view(len(chunk), -1)
        sums += (one_hot.T @ chunk).view(sums.shape)
        counts += one_hot.sum(dim=0).view(counts.shape)
    return torch.where(counts > 0, sums / counts, centers)


def _gain(x: Tensor, centers: Tensor) -> Tensor:
    """How good (R,) the centres are: the less the squared distances to them, the more."""
    gain = torch.zeros(len(centers), device=x.device, dtype=torch.float64)
    for _, score in scores(x, centers):
        gain += score.max(dim=2).values.sum(dim=0, dtype=torch.float64)
    return gain


def scores(x: Tensor, centers: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of rows (m, D) and their scores (m, R, K): greatest for the nearest centre of each restart."""
    flat = centers.reshape(-1, centers.shape[-1])
    bias = -0.5 * flat.square().sum(dim=1)
    for chunk in torch.split(x, max(1, CHUNK_ENTRIES // len(flat))):
        yield chunk, torch.addmm(bias, chunk, flat.T).view(len(chunk), *centers.shape[:2])

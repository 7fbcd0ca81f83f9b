"""K-means on the device of the embedding: all restarts at once, the same labels every time.

scikit-learn's KMeans adds up centres in the order in which its threads finish, so two runs may round
differently, and it knows no GPU. Here every restart is a block of columns of one matrix product,
sums are matrix products too, and rows are taken in chunks, so memory does not grow with n x K. Nothing waits
for a GPU: whether the centres still move is heard of when the answer arrives, and rounds that were queued
meanwhile change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import torch
from torch import Tensor

#: Entries of a chunk's distance matrix; 2**23 floats are 32 MiB.
CHUNK_ENTRIES = 2**23
#: Restarts compete for so many rounds, then the best goes on alone; above this number of rows they compete on
#: a random sample.
CONTEST_ROUNDS, CONTEST_ROWS = 15, 16_384
#: At least so many rows for each cluster in that sample.
ROWS_PER_CLUSTER = 100


def kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    generator: torch.Generator,
    n_init: int = 20,
    max_iter: int = 300,
    tol: float = 1e-4,
) -> Tensor:
    """Centres (K, D) by Lloyd's algorithm from k-means++ starts, the most promising of ``n_init``.

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
    >>> centers = kmeans(x, 2, generator=torch.Generator().manual_seed(0))
    >>> sorted(round(c, 2) for c in centers[:, 0].tolist())
    [0.05, 5.05]
    """
    threshold = tol * x.var(dim=0, unbiased=False).mean()
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


def _lloyd(x: Tensor, centers: Tensor, max_iter: int, threshold: Tensor) -> Tensor:
    """Move the centres of all restarts until none of them moves any more."""
    is_over = torch.zeros((), dtype=torch.bool, device=x.device)
    answer = LateAnswer(x.device)
    for _ in range(max_iter):
        moved = _means(x, centers)
        shift = (moved - centers).square().sum(dim=(1, 2)).amax()
        centers = torch.where(is_over, centers, moved)
        is_over = is_over | (shift <= threshold)
        if answer.is_true(is_over):
            break
    return centers


class LateAnswer:
    """Whether something on the device is true, without waiting for the device to get there.

    On a GPU the answer to a question comes with a later one; what is true must stay so.

    Examples
    --------
    >>> LateAnswer(torch.device("cpu")).is_true(torch.tensor(True))
    True
    """

    def __init__(self, device: torch.device) -> None:
        self._arrival: torch.cuda.Event | None = None
        self._value: Tensor | None = None
        if device.type == "cuda":
            self._value = torch.zeros((), dtype=torch.bool, pin_memory=True)

    def is_true(self, value: Tensor) -> bool:
        """Whether an earlier value that has arrived was true; on a processor whether this one is."""
        if self._value is None:
            return bool(value)
        if self._arrival is not None:
            if not self._arrival.query():  # type: ignore[no-untyped-call]
                return False
            if bool(self._value):
                return True
        self._value.copy_(value, non_blocking=True)
        self._arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._arrival.record(torch.cuda.current_stream(value.device))
        return False


def _means(x: Tensor, centers: Tensor) -> Tensor:
    """Means (R, K, D) of the rows nearest to each centre; that of none is where it was.

    The competition between restarts weeds empty clusters out.
    """
    parts = (_sums(chunk, score) for chunk, score in scores(x, centers))
    sums, counts = reduce(lambda so_far, part: (so_far[0] + part[0], so_far[1] + part[1]), parts)
    return torch.where(counts[..., None] > 0, sums / counts[..., None], centers)


def _sums(chunk: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
    """Sums (R, K, D) and counts (R, K) of the rows of a chunk, each with its nearest centre."""
    nearest = score.max(dim=2, keepdim=True).indices  # faster than argmax
    one_hot = torch.zeros_like(score).scatter_(2, nearest, 1.0).view(len(chunk), -1)
    sums, counts = one_hot.T @ chunk, one_hot.sum(dim=0)
    return sums.view(*score.shape[1:], -1), counts.view(score.shape[1:])


def _gain(x: Tensor, centers: Tensor) -> Tensor:
    """How much nearer (R,) than to the origin the rows are to their centres, all together and squared."""
    gain = torch.zeros(len(centers), device=x.device, dtype=torch.float64)
    for _, score in scores(x, centers):
        gain += score.max(dim=2).values.sum(dim=0, dtype=torch.float64)
    return 2 * gain


def scores(x: Tensor, centers: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of rows (m, D) and their scores (m, R, K): greatest for the nearest centre of each restart."""
    flat = centers.reshape(-1, centers.shape[-1])
    bias = -0.5 * flat.square().sum(dim=1)
    for chunk in torch.split(x, max(1, CHUNK_ENTRIES // len(flat))):
        yield chunk, torch.addmm(bias, chunk, flat.T).view(len(chunk), *centers.shape[:2])

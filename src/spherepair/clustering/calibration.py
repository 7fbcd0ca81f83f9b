"""Calibrate the probabilities of clusters on pairs, with labels that do not depend on these pairs.

Training moves the rows of a pair wherever the answer wants them, so that these rows do not tell how often new
rows are right. Others do: the label that most of their neighbors have, which knows nothing of a row's own
pairs; or the label of a short training on other pairs (``train_with_hold_out`` in
``estimators/setting_search.py``).
With α the share of rows that are right in this way, and wrong rows spread over the other clusters,

    P(same label | must-link)   = α² + (1 - α)² / (K - 1)
    P(same label | cannot-link) = 2 α (1 - α) / (K - 1) + (1 - α)² (K - 2) / (K - 1)²

The accuracy is the mean of α given the pairs. The temperature T of softmax(logits / T) is the one for which
the largest probability of a row is α on average; it changes no label.
Reference for temperatures: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherepair.constraints.pair_arrays import PairArrays

Integers = NDArray[np.int64]

#: Pairs of each kind that are used, rows that are searched for neighbors, and neighbors that vote.
MOST_PAIRS, MOST_ROWS, N_VOTERS = 1000, 16_384, 10
#: The temperature is found on so many rows.
TEMPERATURE_ROWS = 4096
#: Entries of a block of distances.
BLOCK_ENTRIES = 2**24
#: Values of α that are weighed by the likelihood of the pairs.
GRID = 400
#: Range of the temperature, and how often it is halved.
LOW, HIGH, HALVINGS = 1e-3, 1e4, 50


@dataclass(frozen=True)
class Calibration:
    """How sure a model may be.

    Attributes
    ----------
    temperature : float
        What logits are divided by.
    accuracy : float
        Estimated share of new rows that are right.
    n_pairs : int
        Pairs that say so.
    """

    temperature: float
    accuracy: float
    n_pairs: int


def choose_pairs(pairs: PairArrays, labels: Integers, *, seed: int) -> Integers:
    """Positions of the pairs to look at: all, or so many of each kind; no rows without a cluster."""
    known = np.flatnonzero((labels[pairs.left] >= 0) & (labels[pairs.right] >= 0) & (pairs.weight > 0))
    rng = np.random.default_rng(seed)
    kinds = (known[pairs.is_must_link[known]], known[~pairs.is_must_link[known]])
    drawn = [kind if len(kind) <= MOST_PAIRS else rng.permutation(kind)[:MOST_PAIRS] for kind in kinds]
    return np.sort(np.concatenate(drawn))


def vote(
    rows: Tensor, numbers: Tensor, *, voters: Tensor, voter_numbers: Tensor, votes: Tensor, n_clusters: int
) -> Tensor:
    """Label that most of the nearest voters of each row have, (n,); a row never votes for itself.

    Parameters
    ----------
    rows : Tensor of shape (n, d)
    numbers : Tensor of shape (n,)
        Numbers of the rows in the table.
    voters : Tensor of shape (m, d)
    voter_numbers, votes : Tensor of shape (m,)
        Their numbers in the table, and their labels.
    n_clusters : int

    Examples
    --------
    >>> x = torch.tensor([[0.0], [0.1], [0.2], [9.0]])
    >>> ids = torch.arange(4)
    >>> vote(x[:1], ids[:1], voters=x, voter_numbers=ids, votes=torch.tensor([3, 1, 1, 0]), n_clusters=4)
    tensor([1])
    """
    square = voters.square().sum(dim=1)
    n_votes = min(N_VOTERS, len(voters) - 1)
    found = []
    for part, own in zip(
        *(torch.split(t, max(1, BLOCK_ENTRIES // len(voters))) for t in (rows, numbers)), strict=True
    ):
        score = torch.addmm(-square / 2, part, voters.T)  # largest for the nearest
        score = score.masked_fill(own[:, None] == voter_numbers, -torch.inf)
        # Votes fade with the rank, so that the nearest decides where two labels have as many.
        nearest = score.topk(n_votes, dim=1).indices
        weight = torch.linspace(1.0, 0.5, n_votes, device=rows.device).expand(len(part), -1)
        counts = torch.zeros(len(part), n_clusters, device=rows.device).scatter_add_(
            1, votes[nearest], weight
        )
        found.append(counts.argmax(dim=1))
    return torch.cat(found)


def estimate_accuracy(is_same: NDArray[np.bool_], is_must_link: NDArray[np.bool_], n_clusters: int) -> float:
    """Mean of α given whether the two rows of each pair have the same label, (n_pairs,).

    Before any pair is seen, every α from chance to one is as likely.

    Examples
    --------
    >>> must = np.repeat([True, False], 100)
    >>> round(estimate_accuracy(must, must, 10), 3)
    0.995
    >>> round(estimate_accuracy(np.arange(100) < 64, np.ones(100, bool), 10), 2)
    0.79
    """
    others = n_clusters - 1
    alpha = np.linspace(1.0 / n_clusters, 1.0, GRID + 1)[:-1] + 0.5 * (1.0 - 1.0 / n_clusters) / GRID
    wrong = 1.0 - alpha
    together = alpha**2 + wrong**2 / others
    apart = 2 * alpha * wrong / others + wrong**2 * (others - 1) / others**2
    log_likelihood = sum(
        np.count_nonzero(is_same & kind) * np.log(chance)
        + np.count_nonzero(~is_same & kind) * np.log1p(-chance)
        for kind, chance in ((is_must_link, together), (~is_must_link, apart))
    )
    weight = np.exp(log_likelihood - np.max(log_likelihood))
    return float((weight * alpha).sum() / weight.sum())


def find_temperature(logits: Tensor, accuracy: float) -> float:
    """Temperature for which the largest probability of rows with these logits, (n, K), is ``accuracy``.

    Examples
    --------
    >>> found = find_temperature(torch.tensor([[8.0, 0.0], [6.0, 0.0]]), 0.9)
    >>> bool((torch.tensor([[8.0, 0.0], [6.0, 0.0]]) / found).softmax(dim=1)[:, 0].mean() - 0.9 < 1e-3)
    True
    """
    gaps = (logits - logits.amax(dim=1, keepdim=True)).double()
    low, high = np.log(LOW), np.log(HIGH)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        surest = 1.0 / (gaps / np.exp(middle)).exp().sum(dim=1)
        low, high = (middle, high) if float(surest.mean()) > accuracy else (low, middle)
    return float(np.exp((low + high) / 2))

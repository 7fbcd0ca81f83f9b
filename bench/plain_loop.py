"""SpherePair as a user would write it in plain PyTorch: the baseline of the timings.

A DataLoader over a Dataset of single rows, Python lists of indices, one encoder pass per end of a
pair, a loss value fetched in every step. Nothing is slow on purpose.
"""

from __future__ import annotations

from itertools import cycle

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, X: np.ndarray) -> None:
        self.X = torch.from_numpy(X)

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.X[i]


class Pairs(Dataset):
    def __init__(self, X: np.ndarray, pairs: list[tuple[int, int, int]]) -> None:
        self.X, self.pairs = torch.from_numpy(X), pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor, float]:
        left, right, link = self.pairs[i]
        return self.X[left], self.X[right], float(link)


class PlainAutoencoder(nn.Module):
    def __init__(self, n_features: int, embedding_dim: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(n_features, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(),
            nn.Linear(500, 2000), nn.ReLU(), nn.Linear(2000, embedding_dim),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(embedding_dim, 2000), nn.ReLU(), nn.Linear(2000, 500), nn.ReLU(),
            nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, n_features),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(F.normalize(self.encoder(x), dim=1))


def pretraining_epoch(model: PlainAutoencoder, X: np.ndarray, optimizer: torch.optim.Optimizer) -> float:
    """One epoch of denoising over all rows."""
    device = next(model.parameters()).device
    total = 0.0
    for x in DataLoader(Rows(X), batch_size=256, shuffle=True):
        x = x.to(device)  # noqa: PLW2901
        noisy = x * (torch.rand_like(x) > 0.2)
        loss = F.mse_loss(model(noisy), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def pairs_epoch(
    model: PlainAutoencoder,
    X: np.ndarray,
    pairs: list[tuple[int, int, int]],
    optimizer: torch.optim.Optimizer,
    *,
    rows_per_step: int | None = None,
) -> float:
    """One epoch over the pairs, with all rows divided among its steps as in the paper."""
    device = next(model.parameters()).device
    n_steps = -(-len(pairs) // 256)
    size = rows_per_step or len(X) // n_steps
    rows = cycle(DataLoader(Rows(X), batch_size=size, shuffle=True, drop_last=True))
    total = 0.0
    for left, right, link in DataLoader(Pairs(X, pairs), batch_size=256, shuffle=True):
        x = next(rows).to(device)
        similarity = F.cosine_similarity(model.encoder(left.to(device)), model.encoder(right.to(device)))
        theta = torch.acos(similarity.clamp(-1 + 1e-7, 1 - 1e-7))
        zone = (torch.cos(2 * theta) + 1) / 2 * (theta <= torch.pi / 2)
        wanted = link.float().to(device)
        score = torch.where(wanted == 1, (similarity + 1) / 2, zone).clamp(0, 1)
        loss = F.binary_cross_entropy(score, wanted) + 0.02 * F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total

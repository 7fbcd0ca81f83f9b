"""One epoch of each of the six rivals as a user would write it down in plain PyTorch: the yardstick.

DataLoaders over single rows and single pairs, one pass of the network per end of the pair, a loss value
fetched in every step. Nothing is done badly on purpose. Methods that stop by labels look at those of all
rows once per epoch. Settings are those of the paper.
"""

from __future__ import annotations

import math
from itertools import cycle, pairwise

import numpy as np
import torch
from plain_loop import Pairs, Rows
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader

Listed = list[tuple[int, int, int]]


def layers(*sizes: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        parts += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Rival(nn.Module):
    """A network and its optimiser; ``epoch(X, pairs)`` trains once and returns the sum of the losses."""

    optimizer: torch.optim.Optimizer
    clip: float | None = None

    def epoch(self, X: np.ndarray, pairs: Listed) -> float:
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def step(self, loss: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters(), self.clip)
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def memberships(self, X: np.ndarray) -> torch.Tensor:
        """Of all rows, batch by batch."""
        parts = [self.q(x.to(self.device)) for x in DataLoader(Rows(X), batch_size=256)]
        return torch.cat(parts)

    def q(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class PlainVanillaDCC(Rival):
    clip = 1.0

    def __init__(self, n_features: int, n_clusters: int = 10) -> None:
        super().__init__()
        self.network = layers(n_features, 512, 512, n_clusters)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        self.labels: torch.Tensor | None = None

    def q(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x).softmax(dim=1)

    def epoch(self, X: np.ndarray, pairs: Listed) -> float:
        self.changed(X)
        total = 0.0
        for left, right, link in DataLoader(Pairs(X, pairs), batch_size=256, shuffle=True):
            together = (self.q(left.to(self.device)) * self.q(right.to(self.device))).sum(dim=1)
            total += self.step(F.binary_cross_entropy(together.clamp(0, 1), link.float().to(self.device)))
        return total

    def changed(self, X: np.ndarray) -> float:
        """Share of rows that have another label than an epoch ago."""
        before, self.labels = self.labels, self.memberships(X).argmax(dim=1)
        return 1.0 if before is None else (before != self.labels).float().mean().item()


class PlainVolMaxDCC(PlainVanillaDCC):
    def __init__(self, n_features: int, n_clusters: int = 10) -> None:
        super().__init__(n_features, n_clusters)
        self.B = nn.Parameter(2 * torch.eye(n_clusters) - 1)
        groups = [{"params": self.network.parameters()}, {"params": [self.B], "lr": 0.1}]
        self.optimizer = torch.optim.SGD(groups, lr=0.5)

    def epoch(self, X: np.ndarray, pairs: Listed) -> float:
        self.changed(X)
        table, total = torch.from_numpy(X), 0.0
        for left, right, link in DataLoader(Pairs(X, pairs), batch_size=128, shuffle=True):
            a, b = self.q(left.to(self.device)), self.q(right.to(self.device))
            together = ((a @ self.B.sigmoid()) * b).sum(dim=1).clamp(1e-6, 1 - 1e-6)
            some = self.q(table[torch.randperm(len(table))[:10_000]].to(self.device))
            volume = torch.logdet(some.T @ some + 1e-6 * torch.eye(some.shape[1], device=self.device))
            loss = F.binary_cross_entropy(together, link.float().to(self.device)) - 1e-4 * volume
            total += self.step(loss)
        return total


class PlainCIDEC(Rival):
    def __init__(self, n_features: int, n_clusters: int = 10) -> None:
        super().__init__()
        self.encoder = layers(n_features, 500, 500, 2000, 10)
        self.decoder = layers(10, 2000, 500, 500, n_features)
        self.centers = nn.Parameter(torch.randn(n_clusters, 10))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        self.labels: torch.Tensor | None = None

    def q(self, x: torch.Tensor) -> torch.Tensor:
        return self.assign(self.encoder(x))

    def assign(self, z: torch.Tensor) -> torch.Tensor:
        kernel = (1 + (z[:, None] - self.centers).square().sum(dim=2)) ** -2
        return kernel / kernel.sum(dim=1, keepdim=True)

    def target(self, X: np.ndarray) -> torch.Tensor:
        q = self.memberships(X)
        before, self.labels = self.labels, q.argmax(dim=1)
        if before is not None:
            (before != self.labels).float().mean().item()
        sharp = q**2 / q.sum(dim=0)
        return sharp / sharp.sum(dim=1, keepdim=True)

    def epoch(self, X: np.ndarray, pairs: Listed) -> float:
        total, done, p = 0.0, 0, self.target(X)
        for x in DataLoader(Rows(X), batch_size=256):
            x = x.to(self.device)  # noqa: PLW2901
            z = self.encoder(x)
            wanted = p[done : done + len(x)]
            done += len(x)
            kl = (wanted * (wanted / (self.assign(z) + 1e-6)).log()).sum(dim=1).mean()
            total += self.step(0.1 * kl + F.mse_loss(self.decoder(z), x))
        return (
            total
            + self.pull(X, [pair for pair in pairs if pair[2]])
            + self.push(X, [pair for pair in pairs if not pair[2]])
        )

    def pull(self, X: np.ndarray, pairs: Listed) -> float:
        total = 0.0
        for left, right, _ in DataLoader(Pairs(X, pairs), batch_size=256, shuffle=True):
            a, b = left.to(self.device), right.to(self.device)
            u, v = self.encoder(a), self.encoder(b)
            together = (self.assign(u) * self.assign(v)).sum(dim=1)
            kept = F.mse_loss(self.decoder(u), a) + F.mse_loss(self.decoder(v), b)
            total += self.step(-0.1 * together.log().mean() + kept)
        return total

    def push(self, X: np.ndarray, pairs: Listed) -> float:
        total = 0.0
        for left, right, _ in DataLoader(Pairs(X, pairs), batch_size=256, shuffle=True):
            together = (self.q(left.to(self.device)) * self.q(right.to(self.device))).sum(dim=1)
            total += self.step(-(1 - together).clamp(min=1e-12).log().mean())
        return total


class PlainSDEC(PlainCIDEC):
    def __init__(self, n_features: int, n_clusters: int = 10) -> None:
        super().__init__(n_features, n_clusters)
        trained = [*self.encoder.parameters(), self.centers]
        self.optimizer = torch.optim.SGD(trained, lr=0.01, momentum=0.9)

    def epoch(self, X: np.ndarray, pairs: Listed) -> float:
        p, total = self.target(X), 0.0
        order = torch.randperm(len(X))
        size = max(1, len(X) // -(-len(pairs) // 256))
        chunks = zip(DataLoader(Rows(X[order]), batch_size=size), p[order].split(size), strict=True)
        rows = cycle(chunks)
        for left, right, link in DataLoader(Pairs(X, pairs), batch_size=256, shuffle=True):
            x, wanted = next(rows)
            q = self.q(x.to(self.device))
            kl = (wanted * (wanted / (q + 1e-6)).log()).sum(dim=1).mean()
            squares = (self.encoder(left.to(self.device)) - self.encoder(right.to(self.device))).square()
            sign = 2 * link.float().to(self.device) - 1
            total += self.step(kl + 1e-5 * (sign * squares.sum(dim=1)).mean())
        return total


class PlainAutoEmbedder(Rival):
    def __init__(self, n_features: int, n_clusters: int = 10) -> None:
        super().__init__()
        self.first = layers(n_features, 500, 500, 2000, 10)
        self.second = layers(n_features, 500, 500, 2000, 10)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def epoch(self, X: np.ndarray, pairs: Listed) -> float:
        total = 0.0
        for left, right, link in DataLoader(Pairs(X, pairs), batch_size=256, shuffle=True):
            z = self.first(left.to(self.device)) - self.second(right.to(self.device))
            distance = (z.square().sum(dim=1) + 1e-12).sqrt()
            is_must = link.to(self.device) == 1
            pull, push = distance.clamp(max=10_000) ** 2, (100 - distance.clamp(max=100)) ** 2
            total += self.step(torch.where(is_must, pull, push).mean())
        return total


class PlainDCGMM(Rival):
    def __init__(self, n_features: int, n_clusters: int = 10) -> None:
        super().__init__()
        self.hidden = nn.Sequential(layers(n_features, 500, 500, 2000), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(2000, 10), nn.Linear(2000, 10)
        self.decoder = layers(10, 2000, 500, 500, n_features)
        self.centers = nn.Parameter(torch.randn(n_clusters, 10))
        self.log_variances = nn.Parameter(torch.zeros(n_clusters, 10))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def densities(self, z: torch.Tensor) -> torch.Tensor:
        squares = (z[:, None] - self.centers).square() / self.log_variances.exp()
        return -0.5 * (squares + self.log_variances).sum(dim=2)

    def bound(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Negative evidence bound with a Gaussian likelihood, and the responsibilities."""
        hidden = self.hidden(x)
        m, v = self.mean(hidden), self.log_variance(hidden)
        z = m + (v / 2).exp() * torch.randn_like(m)
        g = self.densities(z).softmax(dim=1)
        spread = 0.5 * (v.exp()[:, None] / self.log_variances.exp()).sum(dim=2)
        of_cluster = (g + 1e-12).log() + math.log(g.shape[1])
        kl = (g * (spread - self.densities(m) + of_cluster)).sum(dim=1) - 0.5 * (1 + v).sum(dim=1)
        return (self.decoder(z) - x).square().sum(dim=1).mean() + kl.mean(), g

    def epoch(self, X: np.ndarray, pairs: Listed) -> float:
        total = 0.0
        for x in DataLoader(Rows(X), batch_size=128, shuffle=True, drop_last=True):
            total += self.step(self.bound(x.to(self.device))[0])
        some = [pairs[i] for i in torch.randperm(len(pairs))[: len(pairs) // 2].tolist()]
        for left, right, link in DataLoader(Pairs(X, some), batch_size=64, shuffle=True, drop_last=True):
            loss, g = self.bound(torch.cat([left, right]).to(self.device))
            a, b = g.chunk(2)
            sign = 2 * link.float().to(self.device) - 1
            total += self.step(loss - 10_000 * (sign * (a * b).sum(dim=1)).mean())
        return total


PLAIN: dict[str, type[Rival]] = {
    "VanillaDCC": PlainVanillaDCC,
    "VolMaxDCC": PlainVolMaxDCC,
    "CIDEC": PlainCIDEC,
    "DCGMM": PlainDCGMM,
    "SDEC": PlainSDEC,
    "AutoEmbedder": PlainAutoEmbedder,
}

"""Simulated SpherePair embeddings: scenarios from easy to hopeless, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Scenario:
    """Properties of an embedding.

    Attributes
    ----------
    n_clusters, n_components : int
        K and D.
    n_pairs : int
        Random pairs, must-links and cannot-links together.
    proportions : {"equal", "dirichlet", "geometric"}
        Class sizes; geometric ones span a factor of about fifty.
    noise : float
        Length of the noise beside the unit cluster direction.
    decay : float
        Noise variance falls as j^-decay over its axes; 0 is isotropic.
    openness : float
        1 puts the clusters on a regular simplex, 0 on orthogonal axes.
    jitter : float
        Irregularity of the cluster directions.
    families : float
        How much clusters lean towards one of K / 3 family directions: some are near each other.
    twins : float
        Share of the clusters that lie close to another one, as classes do that the features confuse.
    modes : float
        Distance of three modes inside each cluster from its direction.
    unevenness : float
        Spread (log scale) of the noise length over clusters and over rows.
    confusion : float
        Mean share of rows drawn towards a neighboring cluster; it varies from class to class.
    fitting : int
        Steps of the angular loss on the pairs alone: training remembers its pairs.
    wrong_pairs : float
        Share of links that contradict the classes.
    uncovered : int
        Clusters that no pair touches.
    must_share : float
        Share of must-links where somebody has chosen it; 0 leaves it to chance.
    """

    n_clusters: int
    n_components: int = 20
    n_pairs: int = 5000
    proportions: str = "equal"
    noise: float = 0.3
    decay: float = 1.0
    openness: float = 0.5
    jitter: float = 0.1
    families: float = 0.1
    twins: float = 0.0
    modes: float = 0.1
    unevenness: float = 0.3
    confusion: float = 0.05
    fitting: int = 10
    wrong_pairs: float = 0.0
    uncovered: int = 0
    must_share: float = 0.0
    n_rows: int = 1000


EASY = {
    "K = 2": Scenario(2),
    "K = 2, noise 0.6": Scenario(2, noise=0.6),
    "K = 3": Scenario(3),
    "K = 3, noise 0.6": Scenario(3, noise=0.6),
    "K = 5": Scenario(5),
    "K = 5, noise 0.6": Scenario(5, noise=0.6),
    "K = 10": Scenario(10),
    "K = 10, noise 0.6": Scenario(10, noise=0.6),
    "K = 15": Scenario(15),
    "K = 15, noise 0.6": Scenario(15, noise=0.6),
    "K = 20, D = 50, 10k pairs": Scenario(20, 50, 10_000),
    "K = 20, D = 50, 10k pairs, noise 0.6": Scenario(20, 50, 10_000, noise=0.6),
    "K = 50, D = 64, 30k pairs": Scenario(50, 64, 30_000),
    "K = 50, D = 64, 30k pairs, noise 0.6": Scenario(50, 64, 30_000, noise=0.6),
}
HARD = {
    "K = 10, noise 0.9": Scenario(10, noise=0.9),
    "K = 10, 1k pairs": Scenario(10, n_pairs=1000),
    "K = 10, 1k pairs, noise 0.6, families": Scenario(10, n_pairs=1000, noise=0.6, families=0.5),
    "K = 10, 200 pairs": Scenario(10, n_pairs=200),
    "K = 10, sizes vary (Dirichlet)": Scenario(10, proportions="dirichlet"),
    "K = 8, sizes vary 50-fold": Scenario(8, proportions="geometric", noise=0.6),
    "K = 10, confused classes": Scenario(10, confusion=0.3, families=0.4, noise=0.5),
    "K = 10, 3 % wrong pairs": Scenario(10, wrong_pairs=0.03),
    "K = 10, two pairs of twin classes": Scenario(10, twins=0.4, fitting=30, n_rows=10_000),
    "K = 10, half of the pairs must-links": Scenario(10, must_share=0.5),
    "K = 6, one cluster without pairs": Scenario(6, uncovered=1),
    "K = 12, D = 8 (too small)": Scenario(12, 8),
}


def random_scenario(rng: np.random.Generator) -> Scenario:
    """Draw a scenario from easy to hopeless."""
    n_clusters = int(rng.choice([*range(2, 14), 15, 20, 30, 50]))
    n_pairs = int(np.exp(rng.uniform(np.log(200), np.log(20_000))))
    return Scenario(
        n_clusters,
        20 if n_clusters <= 15 else 50 if n_clusters <= 30 else 64,
        n_pairs=n_pairs,
        proportions=str(rng.choice(["equal", "dirichlet", "geometric"], p=[0.55, 0.3, 0.15])),
        noise=rng.uniform(0.1, 0.9),
        decay=rng.uniform(0, 1.5),
        openness=rng.uniform(0, 1),
        jitter=rng.uniform(0, 0.6),
        families=rng.uniform(0, 0.7),
        twins=float(rng.choice([0, 0.2, 0.4], p=[0.4, 0.3, 0.3])),
        modes=rng.uniform(0, 0.5),
        unevenness=rng.uniform(0, 0.5),
        confusion=float(rng.choice([0, 0.05, 0.1, 0.2, 0.35])),
        fitting=int(rng.choice([0, 10, 30])),
        wrong_pairs=float(rng.choice([0, 0.01, 0.03], p=[0.8, 0.1, 0.1])),
        uncovered=int(n_clusters > 4 and rng.random() < 0.1),
        must_share=float(rng.choice([0, 0.5], p=[0.9, 0.1])),
        n_rows=int(np.clip(1.5 * n_pairs, 2000, 15_000)),
    )


def simulate(scenario: Scenario, seed: int) -> tuple[Floats, SimpleNamespace]:
    """Draw the rows (n, D), of length one, and the pairs of a scenario."""
    rng = np.random.default_rng(seed)
    centers = cluster_directions(scenario, rng)
    shares = class_shares(scenario, rng)
    labels = np.concatenate(
        [
            np.repeat(np.arange(scenario.n_clusters), 2),
            rng.choice(scenario.n_clusters, scenario.n_rows - 2 * scenario.n_clusters, p=shares),
        ]
    )
    pairs = random_pairs(scenario, labels, rng)
    rows = centers[labels] + confusion_shift(scenario, centers, labels, rng)
    rows += mode_shift(scenario, labels, rng)
    rows = unit(rows + noise_rows(scenario, labels, rng))
    for _ in range(scenario.fitting):
        rows = fitting_step(rows, pairs)
    return rows, pairs


def cluster_directions(scenario: Scenario, rng: np.random.Generator) -> Floats:
    """Draw K unit vectors: orthogonal or simplex when D allows it, otherwise random."""
    n_clusters, n_components = scenario.n_clusters, scenario.n_components
    if n_clusters > n_components:
        return directions(n_clusters, n_components, rng)
    axes = np.linalg.qr(rng.normal(size=(n_components, n_components)))[0][:n_clusters]
    centers = unit(axes - scenario.openness * axes.mean(axis=0))
    family = directions(max(1, n_clusters // 3), n_components, rng)
    leaning = scenario.families * family[rng.integers(len(family), size=n_clusters)]
    centers = unit(centers + leaning + scenario.jitter * directions(n_clusters, n_components, rng))
    n_twins = round(scenario.twins * n_clusters / 2)
    # The first clusters are drawn towards the last ones: cosines of 0.7 to 0.95 between the two.
    nearness = rng.uniform(1.0, 3.0, size=(n_twins, 1))
    centers[:n_twins] = unit(centers[:n_twins] + nearness * centers[n_clusters - n_twins :])
    return centers


def class_shares(scenario: Scenario, rng: np.random.Generator) -> Floats:
    """Draw class proportions."""
    if scenario.proportions == "dirichlet":
        shares = rng.dirichlet(np.full(scenario.n_clusters, 4.0)) + 0.2 / scenario.n_clusters
    elif scenario.proportions == "geometric":
        shares = 50.0 ** -np.linspace(0, 1, scenario.n_clusters)
    else:
        shares = np.ones(scenario.n_clusters)
    return shares / shares.sum()


def random_pairs(scenario: Scenario, labels: Integers, rng: np.random.Generator) -> SimpleNamespace:
    """Draw pairs of rows whose clusters are covered, labeled by class up to the wrong ones."""
    allowed = np.flatnonzero(labels >= scenario.uncovered)
    left, right = rng.choice(allowed, (2, scenario.n_pairs))
    left, right = left[left != right], right[left != right]
    if scenario.must_share:
        chosen = choose_must_share(scenario.must_share, labels[left] == labels[right])
        left, right = left[chosen], right[chosen]
    wrong = rng.random(len(left)) < scenario.wrong_pairs
    is_must_link = (labels[left] == labels[right]) ^ wrong
    weight = np.ones(len(left))
    return SimpleNamespace(left=left, right=right, is_must_link=is_must_link, weight=weight)


def choose_must_share(wanted: float, is_must_link: NDArray[np.bool_]) -> Integers:
    """Leave out cannot-links until the wanted share of must-links is reached."""
    together, apart = np.flatnonzero(is_must_link), np.flatnonzero(~is_must_link)
    return np.concatenate([together, apart[: round(len(together) * (1 / wanted - 1))]])


def confusion_shift(
    scenario: Scenario, centers: Floats, labels: Integers, rng: np.random.Generator
) -> Floats:
    """Draw some rows towards the neighbor that their cluster is mistaken for."""
    cosines = centers @ centers.T - 2 * np.eye(len(centers))
    neighbor = cosines.argmax(axis=1)
    rates = np.minimum(scenario.confusion * rng.exponential(size=len(centers)), 0.8)
    confused = rng.random(len(labels)) < rates[labels]
    amount = confused * rng.uniform(0.2, 1.0, len(labels))
    return amount[:, None] * (centers[neighbor[labels]] - centers[labels])


def mode_shift(scenario: Scenario, labels: Integers, rng: np.random.Generator) -> Floats:
    """Draw each row towards one of three modes of its cluster."""
    modes = directions(3 * scenario.n_clusters, scenario.n_components, rng)
    return scenario.modes * modes[3 * labels + rng.integers(3, size=len(labels))]


def noise_rows(scenario: Scenario, labels: Integers, rng: np.random.Generator) -> Floats:
    """Draw noise of the wanted length on randomly turned axes."""
    size, uneven = scenario.n_components, scenario.unevenness
    scale = np.arange(1, size + 1) ** (-scenario.decay / 2)
    axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
    noise = rng.normal(size=(len(labels), size)) * scale / np.linalg.norm(scale)
    by_cluster = np.exp(uneven * rng.normal(size=scenario.n_clusters))[labels]
    by_row = np.exp(uneven * rng.normal(size=len(labels)))
    return scenario.noise * (by_cluster * by_row)[:, None] * noise @ axes


def fitting_step(rows: Floats, pairs: SimpleNamespace, rate: float = 0.3) -> Floats:
    """Move must-linked rows together and cannot-linked rows apart up to a right angle."""
    cosine = np.einsum("ij,ij->i", rows[pairs.left], rows[pairs.right])
    pull = np.where(pairs.is_must_link, 1.0, -np.maximum(cosine, 0.0) * 2)[:, None] * rate
    moved = rows.copy()
    np.add.at(moved, pairs.left, pull * rows[pairs.right])
    np.add.at(moved, pairs.right, pull * rows[pairs.left])
    return unit(moved)


def directions(count: int, n_components: int, rng: np.random.Generator) -> Floats:
    """Draw random unit vectors."""
    return unit(rng.normal(size=(count, n_components)))


def unit(rows: Floats) -> Floats:
    """Scale rows to length one."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)

"""Fit the coefficients of cluster-number inference on trained and simulated embeddings.

    python bench/cluster_number_fit.py embeddings --simulated 250

`embeddings` is a folder of `bench/cluster_number_embeddings.py`, development seeds only. Prints the
coefficients for `number_settings.py`, and how the consensus does on each data set when it is fitted
without it. About ten minutes on one core for 36 embeddings and 250 simulated ones.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cluster_number_real import trained_embeddings
from cluster_number_simulation import random_scenario, simulate
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from spherepair.clustering import number_settings as settings
from spherepair.clustering.cluster_number import Pairs
from spherepair.clustering.consensus import (
    Problem,
    consensus_features,
    lifetime_features,
    problem_angles,
)
from spherepair.clustering.lifetime import lifetime_curves
from spherepair.clustering.number_inputs import checked_limits, unit_rows, usable_links

Floats = NDArray[np.float64]

FIRST_SEED = 900_000
# Signs that the theory asks for; their sizes are fitted.
NEGATIVE = {"rise_after", "below_band", "merged"}
PENALTY = 0.2
N_RESAMPLES = 4
MODELS = {
    "TAIL_ANGLE_COEFFICIENTS": tuple(settings.TAIL_ANGLE_COEFFICIENTS),
    "SILHOUETTE_COEFFICIENTS": tuple(settings.SILHOUETTE_COEFFICIENTS),
    "LIFETIME_COEFFICIENTS": tuple(settings.LIFETIME_COEFFICIENTS),
    "CONSENSUS_COEFFICIENTS": tuple(settings.CONSENSUS_COEFFICIENTS),
}


@dataclass(frozen=True)
class Example:
    """One embedding: features by name, each (resamples, candidates), and the true number."""

    source: str
    n_clusters: int
    features: dict[str, Floats]


def main() -> None:
    """Fit all models and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--simulated", type=int, default=250)
    options = parser.parse_args()
    examples = [*trained_examples(options.folder), *simulated_examples(options.simulated)]
    for model, names in MODELS.items():
        fitted = fit(examples, names)
        print(model, {name: round(value, 2) for name, value in fitted.items()}, flush=True)
    print_left_out(examples, MODELS["CONSENSUS_COEFFICIENTS"])


def trained_examples(folder: Path) -> list[Example]:
    """Features of all embeddings in a folder."""
    return [
        Example(run.data, run.n_classes, features_of(run.embedding, run.pairs))
        for run in trained_embeddings(folder)
    ]


def simulated_examples(count: int) -> list[Example]:
    """Features of random scenarios that can be solved and whose pairs are random."""
    examples = []
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        scenario = random_scenario(np.random.default_rng(seed))
        if scenario.uncovered == 0 and scenario.must_share == 0:
            features = features_of(*simulate(scenario, seed))
            examples.append(Example("simulated", scenario.n_clusters, features))
    return examples


def features_of(embedding: Floats, pairs: Pairs) -> dict[str, Floats]:
    """All features, with one line per tail ratio and resample."""
    rng = np.random.default_rng(0)
    rows = unit_rows(embedding)
    largest = checked_limits(rows, tail_ratio=0.05, max_clusters=None, n_resamples=N_RESAMPLES)
    links = usable_links(pairs, rows, rng=rng)
    problem = Problem(rows, links, 0.05, largest, N_RESAMPLES, rng)
    features = consensus_features(problem, problem_angles(problem))
    lives = lifetime_curves(rows, largest, rng=rng, n_runs=1, n_rows=settings.SCAN_ROWS)
    features |= lifetime_features(lives)
    lines = len(features["rise_into"])
    return {name: np.broadcast_to(values, (lines, largest - 1)) for name, values in features.items()}


def fit(examples: list[Example], names: tuple[str, ...]) -> dict[str, float]:
    """Maximise the likelihood; trained and simulated embeddings weigh the same in total."""
    simulated = np.array([example.source == "simulated" for example in examples])
    balance = (~simulated).sum() / max(simulated.sum(), 1)
    weights = np.where(simulated, balance, 1.0)
    bounds = [(None, 0.0) if name in NEGATIVE else (0.0, None) for name in names]
    start = [-0.3 if name in NEGATIVE else 0.3 for name in names]

    def loss(coefficients: Floats) -> float:
        likelihoods = [log_shares(e, names, coefficients)[e.n_clusters - 2] for e in examples]
        return float(-weights @ likelihoods + PENALTY * (coefficients**2).sum())

    found = minimize(loss, start, bounds=bounds, method="L-BFGS-B").x
    return dict(zip(names, found.tolist(), strict=True))


def log_shares(example: Example, names: tuple[str, ...], coefficients: Floats) -> Floats:
    """Logarithm of the shares of all candidates, as ``candidate_shares`` gives them."""
    scores = sum(c * example.features[name] for name, c in zip(names, coefficients, strict=True))
    table = np.asarray(scores)
    table = table - logsumexp(table, axis=1, keepdims=True)
    return np.asarray(logsumexp(table, axis=0)) - np.log(len(table))


def print_left_out(examples: list[Example], names: tuple[str, ...]) -> None:
    """Fit without each data set in turn and print the errors and shares on it."""
    for source in sorted({example.source for example in examples} - {"simulated"}):
        fitted = fit([example for example in examples if example.source != source], names)
        coefficients = np.array(list(fitted.values()))
        answers = []
        for example in examples:
            if example.source == source:
                shares = np.exp(log_shares(example, names, coefficients))
                error = int(shares.argmax()) + 2 - example.n_clusters
                answers.append(f"{error:+d} ({shares.max():.2f})")
        print(f"left out {source}: {', '.join(answers)}", flush=True)


if __name__ == "__main__":
    main()

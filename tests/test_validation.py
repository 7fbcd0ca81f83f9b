"""Whether rows embed as they did in the fit; tables and pairs are tested with the estimators."""

from __future__ import annotations

import numpy as np

from spherepair.estimators.job import first_moved_row

ROWS = np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.001], [5.0, 0.0]], dtype=np.float32)


def moved(row: int, by: float) -> np.ndarray:
    found = ROWS.copy()
    found[row, 0] += by
    return found


def test_rows_that_moved_a_little_are_the_same() -> None:
    assert first_moved_row(ROWS, ROWS) is None
    assert first_moved_row(moved(1, 0.1), ROWS) is None


def test_the_first_row_that_moved_far_is_named() -> None:
    found = moved(1, 2.0)
    found[3] = 0.0
    assert first_moved_row(found, ROWS) == 1


def test_a_row_near_the_origin_may_move_as_far_as_the_others() -> None:
    assert first_moved_row(moved(2, 0.1), ROWS) is None
    assert first_moved_row(moved(2, 2.0), ROWS) == 2


def test_embeddings_that_are_all_zero_are_the_same() -> None:
    assert first_moved_row(np.zeros((2, 3)), np.zeros((2, 3))) is None


def test_an_embedding_that_is_not_finite_is_another() -> None:
    assert first_moved_row(moved(3, np.nan), ROWS) == 3

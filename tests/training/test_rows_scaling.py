"""Scaling: columns in one unit keep their relative sizes, others are standardised."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from spherepair.errors import SpherePairWarning
from spherepair.training import scaling
from spherepair.training.scaling import learn_scaling


def scaled(X, kind):
    return learn_scaling(X, kind).on(torch.device("cpu"))(torch.from_numpy(np.asarray(X))).numpy()


@pytest.fixture
def mixed_units():
    rng = np.random.default_rng(0)
    return rng.normal([0, 50_000, 1e-3], [1, 20_000, 1e-4], size=(200, 3))


def test_standard_gives_zero_mean_and_unit_variance(mixed_units):
    out = scaled(mixed_units, "standard")
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(out.std(axis=0), 1, rtol=1e-3)


def test_auto_standardises_columns_in_different_units(mixed_units):
    np.testing.assert_allclose(scaled(mixed_units, "auto"), scaled(mixed_units, "standard"), atol=1e-6)


def test_auto_keeps_the_relative_sizes_of_pixels():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(100, 20)).astype(np.uint8)
    X[:, 0] = 0
    X[:50, 1] = 0
    out = scaled(X, "auto")
    np.testing.assert_allclose(out / out.max(), X / X.max(), atol=1e-6)
    assert np.sqrt(np.mean(out**2)) == pytest.approx(1.0, rel=1e-5)


def test_auto_takes_away_a_large_common_offset():
    rng = np.random.default_rng(0)
    X = 2000 + rng.normal(size=(100, 4))
    assert np.abs(scaled(X, "auto").mean()) < 1e-3


def test_constant_columns_become_zero():
    X = np.column_stack([np.full(50, 7.5), np.arange(50) * 1000.0, np.full(50, 1e9)])
    out = scaled(X, "standard")
    assert np.isfinite(out).all()
    assert (out[:, [0, 2]] == 0).all()


def test_a_table_of_constants_is_no_division_by_zero():
    assert np.isfinite(scaled(np.full((10, 3), 4.0), "auto")).all()
    assert np.isfinite(scaled(np.zeros((10, 3)), "auto")).all()


def test_none_leaves_values_alone():
    X = np.arange(6, dtype=np.float64).reshape(3, 2)
    np.testing.assert_array_equal(scaled(X, "none"), X)


@pytest.mark.parametrize("block", [7, 2**18])
def test_sparse_and_dense_agree(monkeypatch, block):
    monkeypatch.setattr("spherepair.training.scaling.STATISTICS_ENTRIES", block)
    dense = sparse.random(60, 9, density=0.3, random_state=0).toarray()
    dense[dense > 0] -= 0.8  # columns whose largest magnitude is negative
    dense[:, 4], dense[:, 7] = 3.0, 0.0
    expected, found = (scaling._column_statistics(X) for X in (dense, sparse.csr_matrix(dense)))
    for name in ("mean", "std", "largest"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-14)


def test_entries_stored_twice_count_as_their_sum_and_stay_as_they_were():
    columns, starts, values = np.array([2, 0, 2, 1]), np.array([0, 3, 4]), np.array([1.0, 5.0, 2.0, 4.0])
    X = sparse.csr_matrix((values, columns, starts), shape=(2, 3))
    found, expected = scaling._column_statistics(X), scaling._column_statistics(X.toarray())
    np.testing.assert_allclose(found.std, expected.std)
    assert found.largest.tolist() == [5.0, 4.0, 3.0]
    assert X.indices.tolist() == [2, 0, 2, 1]


def test_blocks_give_the_statistics_of_the_whole(monkeypatch):
    X = np.random.default_rng(0).normal(1e6, 1.0, size=(500, 3))
    whole = learn_scaling(X, "standard")
    monkeypatch.setattr("spherepair.training.scaling.STATISTICS_ENTRIES", 30)
    np.testing.assert_allclose(learn_scaling(X, "standard").factor, whole.factor, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize("by_column", [True, False])
def test_rows_met_block_by_block_have_the_statistics_of_the_whole(dtype, by_column, monkeypatch):
    X = np.random.default_rng(0).normal([5000.0, 0.0, -70.0], [20.0, 3.0, 1.0], size=(500, 3)).astype(dtype)
    X[:250] += 40  # blocks lie apart
    stream = scaling.ColumnStream()
    monkeypatch.setattr("spherepair.training.scaling.STATISTICS_ENTRIES", 60)
    for block in np.split(X, [0, 7, 300]):
        if by_column:
            stream.add_columns(list(block.T))
        else:
            stream.add(block)
    found, expected = stream.statistics(), scaling._column_statistics(X)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-9)
    np.testing.assert_array_equal(found.largest, expected.largest)
    assert found.resolution == expected.resolution


def test_a_time_stamp_met_block_by_block_keeps_its_spread():
    spread = np.random.default_rng(0).normal(size=500)
    stream = scaling.ColumnStream()
    for block in np.split(1.7e9 + spread[:, None], 5):
        stream.add(block)
    np.testing.assert_allclose(stream.statistics().std, spread.std(), rtol=1e-6)


def test_the_number_of_threads_does_not_matter(monkeypatch):
    X = np.random.default_rng(0).normal(size=(500, 3))
    monkeypatch.setattr("spherepair.training.scaling.STATISTICS_ENTRIES", 30)
    found = []
    for n_threads in (1, 5):
        monkeypatch.setattr("torch.get_num_threads", lambda n_threads=n_threads: n_threads)
        found.append(learn_scaling(X, "standard"))
    np.testing.assert_array_equal(found[0].shift, found[1].shift)
    np.testing.assert_array_equal(found[0].factor, found[1].factor)


def test_the_largest_magnitude_may_be_negative():
    X = np.array([[-50.0, 1.0, 2.0], [0.0, -2.0, 1.0], [3.0, 0.0, -1.0]])
    assert scaling._column_statistics(X).largest.tolist() == [50.0, 2.0, 2.0]


def test_a_column_that_varies_little_for_its_size_is_centered_in_float64():
    spread = np.random.default_rng(0).normal(size=500)
    X = np.column_stack([1e9 + spread, spread])  # a spread of a billionth of the size
    np.testing.assert_allclose(scaled(X, "standard")[:, 0], scaled(X, "standard")[:, 1], atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "size", "step"), [(np.float64, 1e13, 1.0), (np.float32, 1.0, np.finfo(np.float32).eps)]
)
def test_a_column_that_is_left_out_though_it_varies_is_named(dtype, size, step):
    X = np.zeros((500, 3), dtype)
    X[:, 0], X[:, 1], X[:, 2] = np.arange(500), size, 7.0
    X[250:, 1] += step
    with pytest.warns(SpherePairWarning, match=r"1 column\(s\) of X, the first at position 1, .*left out"):
        scaling = learn_scaling(X, "standard")
    assert scaling.factor[1] == 0.0

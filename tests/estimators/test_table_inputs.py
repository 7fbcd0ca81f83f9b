from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from spherepair import Constraints, SpherePair, validation
from spherepair.estimators import method_families
from spherepair.training.scaling import learn_scaling

NAMES = [f"c{i}" for i in range(5)]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def _own_memory() -> int:
    """Bytes of this process that are its own: of NumPy, torch and all else, but not of mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@contextmanager
def _growth() -> Iterator[list[int]]:
    """How much that memory grew at most meanwhile, looked at every few milliseconds; in its first entry."""
    before, most, is_over = _own_memory(), [0], threading.Event()

    def look() -> None:
        while not is_over.wait(0.002):
            most[0] = max(most[0], _own_memory() - before)

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield most
    finally:
        is_over.set()
        watch.join()


def _frozen(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


def _padded(X: np.ndarray) -> np.ndarray:
    return np.repeat(X, 2, axis=1)[:, ::2]


FORMS = {
    "uint8": lambda X: X.astype(np.uint8),
    "int16": lambda X: X.astype(np.int16),
    "uint16": lambda X: X.astype(np.uint16),
    "uint64": lambda X: X.astype(np.uint64),
    "int64": lambda X: X.astype(np.int64),
    "float16": lambda X: X.astype(np.float16),
    "float64": lambda X: X.astype(np.float64),
    "longdouble": lambda X: X.astype(np.longdouble),
    "big-endian float": lambda X: X.astype(">f8"),
    "big-endian int": lambda X: X.astype(">i4"),
    "numbers as objects": lambda X: X.astype(object),
    "Fortran order": np.asfortranarray,
    "non-contiguous": _padded,
    "negative strides": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": _frozen,
    "list": lambda X: X.tolist(),
    "CSR": sparse.csr_matrix,
    "CSR array": sparse.csr_array,
    "CSC": sparse.csc_array,
    "COO": sparse.coo_array,
    "CSR of integers": lambda X: sparse.csr_array(X.astype(np.int32)),
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "pandas of mixed types": lambda X: pd.DataFrame(X, columns=NAMES).astype({"c0": int, "c1": "Int64"}),
    "pandas with a row index": lambda X: pd.DataFrame(X, columns=NAMES, index=np.arange(len(X))[::-1]),
    "pandas with numbered columns": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "pyarrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "torch": torch.from_numpy,
    "torch float64": lambda X: torch.from_numpy(X).double(),
    "torch with a gradient": lambda X: torch.from_numpy(X).clone().requires_grad_(),
    "torch bfloat16": lambda X: torch.from_numpy(X).bfloat16(),
}


@pytest.fixture(scope="module")
def briefly_fitted(make: Any, X: Any, pairs: Any) -> SpherePair:
    """Trained for as long as it takes that another value of a row would show."""
    return make(max_epochs=2).fit(X, constraints=pairs)


@pytest.mark.parametrize("form", FORMS)
def test_same_values_give_the_same_labels(
    form: str, briefly_fitted: SpherePair, make: Any, X: Any, pairs: Any
) -> None:
    assert X.max() <= 256  # so that even bfloat16 holds every value
    table = FORMS[form](X)
    model = make(max_epochs=2).fit(table, constraints=pairs)
    assert np.array_equal(model.labels_, briefly_fitted.labels_)
    np.testing.assert_allclose(model.embedding_, briefly_fitted.embedding_, atol=1e-5)
    assert np.array_equal(model.predict(table), model.labels_)


def test_boolean_columns_are_numbers(make: Any, pairs: Any, y: Any) -> None:
    X = np.random.default_rng(0).random((120, 12)) < 0.2 + 0.3 * y[:, None]
    plain = {"wrong_answers": None}  # rows so unclear would be trained on twice
    expected = make(**plain).fit(X.astype(np.float32), constraints=pairs).embedding_
    for table in (X, pd.DataFrame(X), torch.from_numpy(X)):
        assert np.array_equal(make(**plain).fit(table, constraints=pairs).embedding_, expected)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_maps_give_the_same_labels(
    mode: Any, fitted: SpherePair, make: Any, X: Any, pairs: Any, tmp_path: Path
) -> None:
    np.save(tmp_path / "rows.npy", X)
    before = (tmp_path / "rows.npy").read_bytes()
    table = np.load(tmp_path / "rows.npy", mmap_mode=mode)
    model = make().fit(table, constraints=pairs)
    assert np.array_equal(model.embedding_, fitted.embedding_)
    assert np.array_equal(model.predict(table), fitted.labels_)
    del table, model
    assert (tmp_path / "rows.npy").read_bytes() == before


@pytest.mark.parametrize("form", ["float64", "CSR", "pandas", "torch"])
def test_inputs_are_never_changed(form: str, make: Any, X: Any, pairs: Any) -> None:
    table, same = FORMS[form](X.copy()), FORMS[form](X.copy())
    left = pairs.left.copy()
    make().fit(table, constraints=pairs).refine(pairs).predict(table)
    difference = table != same
    assert not (difference.nnz if sparse.issparse(difference) else np.asarray(difference).any())
    assert np.array_equal(pairs.left, left)


def test_labels_follow_the_order_of_the_rows(fitted: SpherePair, X: Any) -> None:
    order = np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(fitted.predict(X[order]), fitted.labels_[order])


@linux_only
def test_sparse_rows_are_densified_a_batch_at_a_time(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.random_array((50_000, 2_000), density=0.001, format="csr", rng=0, dtype=np.float32)
    sizes: list[int] = []
    toarray = sparse.csr_array.toarray

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(self.shape[0])
        return toarray(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_array, "toarray", counting)
    pairs = Constraints.from_labels(np.arange(50_000) % 2, 300, random_state=0)
    model = make(2, hidden_dims=(4,), max_epochs=1, pretraining=None)
    few = Constraints.from_labels(np.arange(400) % 2, 300, random_state=0)
    model.fit(X[:400], constraints=few)  # libraries take their own memory once
    with _growth() as most:
        model.fit(X, constraints=pairs)
    assert 0 < max(sizes) < 5_000
    assert most[0] < 50_000 * 2_000 * 4 / 1.5


@linux_only
def test_wide_sparse_rows_are_labelled_a_few_at_a_time(make: Any) -> None:
    X = sparse.random_array((8_000, 20_000), density=1e-4, format="csr", rng=0, dtype=np.float32)
    pairs = Constraints.from_labels(np.arange(200) % 2, 300, random_state=0)
    model = make(2, hidden_dims=(4,), max_epochs=1, pretraining=None).fit(X[:200], constraints=pairs)
    with _growth() as most:
        assert len(model.predict(X)) == 8_000
    assert most[0] < 8_000 * 20_000 * 4 / 4


@linux_only
def test_a_memory_map_is_not_loaded_whole(make: Any, tmp_path: Path) -> None:
    shape = (60_000, 1_500)
    file = np.lib.format.open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.float32, shape=shape)
    file[::97] = 1.0
    del file
    pairs = Constraints.from_labels(np.arange(shape[0]) % 2, 300, random_state=0)
    table = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with _growth() as most:
        model = make(2, hidden_dims=(4,), max_epochs=1, pretraining=None, scaling="none")
        labels = model.fit(table, constraints=pairs).predict(table)
    assert np.array_equal(labels, model.labels_)
    assert most[0] < shape[0] * shape[1] * 4 / 2


def test_an_offset_beyond_float32_does_not_hide_the_spread() -> None:
    seconds = 1.7e9 + np.random.default_rng(0).normal(scale=1_000, size=(50, 2))
    exact = (seconds - seconds.mean(axis=0)) / seconds.std(axis=0)
    scaled = learn_scaling(seconds, "standard").on(torch.device("cpu"))(torch.from_numpy(seconds))
    np.testing.assert_allclose(scaled.numpy(), exact, atol=1e-5)


def test_scaling_is_learned_on_fit_and_not_on_predict(fitted: SpherePair, X: Any) -> None:
    alone = np.concatenate([fitted.transform(X[i : i + 1]) for i in range(0, 120, 30)])
    np.testing.assert_allclose(alone, fitted.embedding_[::30], atol=1e-5)


def test_a_column_of_zeros_and_a_constant_column_scale_to_zero() -> None:
    X = np.column_stack([np.zeros(10), np.full(10, 1e6), np.arange(10.0)])
    scale = learn_scaling(X, "standard").on(torch.device("cpu"))
    scaled = scale(torch.from_numpy(X)).numpy()
    assert not scaled[:, :2].any()
    np.testing.assert_allclose(scaled[:, 2].std(), 1, rtol=1e-5)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_rows_of_a_frame_lie_side_by_side_in_memory(kind: str, X: Any) -> None:
    columns = {f"c{i}": column for i, column in enumerate(X.T)}
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)
    rows = validation.check_table(SpherePair(3), frame, reset=True)
    assert rows.flags.c_contiguous
    assert rows.flags.writeable
    np.testing.assert_array_equal(rows, X)


def test_of_many_rows_some_tell_how_wide_clusters_are(
    fitted: SpherePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = np.square(fitted.embedding_ - fitted.cluster_centers_[fitted.labels_]).mean()
    assert fitted._spread() == pytest.approx(exact, rel=1e-5)
    monkeypatch.setattr(method_families, "VARIANCE_ROWS", 40)
    rough = fitted._spread()
    assert rough != pytest.approx(exact, rel=1e-5)
    assert rough == pytest.approx(exact, rel=0.7)

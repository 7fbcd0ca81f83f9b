"""The rows of a data set that a model is trained on: those in pairs, and others drawn at random.

Training needs no more than some hundred thousand different rows. One pass over the data set reads those that
were drawn, looks up the IDs that the pairs name, refuses values that are not finite, and learns how the
columns are scaled from all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from spherepair.constraints import Constraints
from spherepair.constraints.labels_and_answers import named_rows
from spherepair.errors import InvalidDataError
from spherepair.estimators.trust.explaining import propose_names
from spherepair.files.arrow_rows import vector_columns, widen
from spherepair.files.data_sets import DataFile, Needs, RowBatch, open_data_file, read_ahead
from spherepair.files.joined_columns import refuse_other_columns
from spherepair.files.places import find_files
from spherepair.scale.parts import common_id_type, open_files
from spherepair.training.scaling import ColumnStatistics, ColumnStream
from spherepair.validation import require_finite

#: Rows drawn at random by default.
SAMPLE_ROWS = 1_000_000
#: Where pairs choose the size: the smallest size tried, and the factor from one size to the next.
FIRST_ROWS, GROWTH = 20_000, 4
#: Share of the pairs held out to choose the size, and the fewest pairs that decide anything.
HELD_OUT, FEWEST_HELD_OUT = 0.2, 20


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a data set in its order.

    Attributes
    ----------
    X : ndarray of shape (n_sample, n_features), or Arrow table where columns are not all numbers
    names : list of str or None
        Names of the features of an array.
    pairs : Constraints
        Between rows of the sample.
    n_rows : int
        Rows of the whole data set.
    ids : Arrow array of shape (n_sample,)
        ID of each row, or its position in the data set where rows have none.
    columns : ColumnStatistics or None
        Of the numbers of all rows of the data set.
    """

    X: Any
    names: list[str] | None
    pairs: Constraints
    n_rows: int
    ids: Any = None
    columns: ColumnStatistics | None = None


def count_rows(source: Any) -> int:
    """Rows of a data set; files that do not say how many they have are read."""
    return sum(open_data_file(file).count() for file in find_files(source))


def draw_sample(
    source: Any,
    constraints: Constraints | str | Path | None,
    *,
    needs: Needs,
    n_sample: int = SAMPLE_ROWS,
    seed: int = 0,
) -> Sample:
    """Read the rows in pairs and ``n_sample`` others, or all where there are no more.

    Parameters
    ----------
    source : path, URI, glob, folder, or a sequence of these
    constraints : Constraints, path or None
        Pairs of positions in the data set, or a file of pairs; with an ID column it names rows by ID.
    needs : Needs
    n_sample : int
    seed : int
    """
    files = open_files(find_files(source), needs)
    needs = _common_columns(files, needs)
    n_rows = sum(file.count() for file in files)
    if n_rows < 2:
        raise InvalidDataError(f"the data set has {n_rows} rows; a fit needs more.")
    drawn = np.random.default_rng(seed).choice(n_rows, min(n_sample, n_rows), replace=False, shuffle=False)
    if needs.id_column is not None and isinstance(constraints, str | Path):
        ids = named_rows(Path(constraints))
        if ids is not None:
            found = _gather(files, needs, np.sort(drawn), ids)
            pairs = Constraints.read(constraints, ids=found.ids, n_rows=len(found.X))
            return Sample(found.X, found.names, pairs, n_rows, found.ids, found.columns)
    pairs = constraints if isinstance(constraints, Constraints) else _read(constraints, n_rows)
    pairs.validate(n_rows)
    positions = np.union1d(drawn, np.concatenate([pairs.left, pairs.right]))
    found = _gather(files, needs, positions, None)
    left, right = np.searchsorted(positions, pairs.left), np.searchsorted(positions, pairs.right)
    placed = replace(pairs, left=left, right=right, n_rows=len(positions))
    return Sample(found.X, found.names, placed, n_rows, found.ids, found.columns)


def fit_sample(estimator: Any, sample: Sample, **options: Any) -> Any:
    """Fit an estimator on a sample, under the names of its columns; takes the options of its ``fit``."""
    fitted = estimator.fit(sample.X, constraints=sample.pairs, columns=sample.columns, **options)
    if sample.names is not None:
        # Not by way of a table, which would be a second copy of the rows.
        fitted.feature_names_in_ = np.array(sample.names, dtype=object)
        fitted.group_names_ = propose_names(fitted, sample.X, sample.X)
    return fitted


@dataclass(frozen=True)
class SizeTrial:
    """Rows that were trained on, and the share of held-out pairs that were satisfied."""

    n_rows: int
    score: float


@dataclass(frozen=True, eq=False)
class ChosenSample:
    """A sample whose size was chosen by pairs, the sizes that were tried, and which rows were kept."""

    sample: Sample
    trials: tuple[SizeTrial, ...]
    kept: NDArray[np.int64]

    def sentence(self) -> str:
        """The choice in words."""
        if not self.trials:
            return (
                f"too few pairs to choose a size by; all {len(self.sample.X):,} rows of the sample are used"
            )
        told = ", ".join(f"{100 * trial.score:.1f} % with {trial.n_rows:,} rows" for trial in self.trials)
        return f"held-out pairs satisfied: {told}; {len(self.sample.X):,} rows were chosen"


def choose_sample(
    estimator: Any, sample: Sample, *, first_rows: int = FIRST_ROWS, seed: int = 0, **options: Any
) -> ChosenSample:
    """The smallest part of a sample beyond which held-out pairs gain nothing.

    A fifth of the pairs is held out. Models are trained on the rows in pairs and on more and more others,
    each time four times as many, as long as the share of held-out pairs that are satisfied grows by more than
    its standard error. All trials together take about a third longer than the last of them.

    Parameters
    ----------
    estimator : estimator
        Copies of it are fitted.
    sample : Sample
        With all rows that may be used.
    first_rows : int
        Others beside the rows in pairs in the first trial.
    seed : int
    **options
        Of the estimator's ``fit``.
    """
    rng, n_pairs = np.random.default_rng([seed, 1]), len(sample.pairs)
    order, n_held = rng.permutation(n_pairs), int(HELD_OUT * n_pairs)
    if n_held < FEWEST_HELD_OUT:
        return ChosenSample(sample, (), np.arange(len(sample.X)))
    is_end = np.zeros(len(sample.X), dtype=bool)
    is_end[sample.pairs.left] = is_end[sample.pairs.right] = True
    others = rng.permutation(np.flatnonzero(~is_end))
    trials: list[SizeTrial] = []
    best, n_others = (sample, np.arange(len(sample.X))), min(first_rows, len(others))
    while True:
        kept = np.sort(np.concatenate([np.flatnonzero(is_end), others[:n_others]]))
        part = _part_of(sample, kept)
        held, known = part.pairs[np.sort(order[:n_held])], part.pairs[np.sort(order[n_held:])]
        # Without names: the groups of a trial need none.
        fitted = fit_sample(clone(estimator), replace(part, pairs=known, names=None), **options)
        score = float(fitted.score_pairs(held))
        error = np.sqrt(trials[-1].score * (1 - trials[-1].score) / n_held) if trials else 0.0
        is_better = not trials or score > trials[-1].score + error
        trials.append(SizeTrial(len(part.X), score))
        best = (part, kept) if is_better else best
        if not is_better or n_others == len(others):
            return ChosenSample(best[0], tuple(trials), best[1])
        n_others = min(GROWTH * n_others, len(others))


def _part_of(sample: Sample, kept: NDArray[np.int64]) -> Sample:
    """Rows at these positions, among them all that are in pairs."""
    X = sample.X.take(kept) if hasattr(sample.X, "schema") else sample.X[kept]
    left, right = np.searchsorted(kept, sample.pairs.left), np.searchsorted(kept, sample.pairs.right)
    pairs = replace(sample.pairs, left=left, right=right, n_rows=len(kept))
    return replace(sample, X=X, pairs=pairs, ids=sample.ids.take(kept))


def _read(constraints: str | Path | None, n_rows: int) -> Constraints:
    return Constraints.from_pairs() if constraints is None else Constraints.read(constraints, n_rows=n_rows)


def _common_columns(files: list[DataFile], needs: Needs) -> Needs:
    """What is read of every file: the columns of the first, which all others must have in types that fit."""
    fields = [{field.name: field for field in file.fields(needs)} for file in files]
    for file, own in zip(files, fields, strict=True):
        refuse_other_columns(str(files[0].file), fields[0], str(file.file), own)
    return replace(needs, features=tuple(fields[0])) if fields[0] else needs


@dataclass(frozen=True, eq=False)
class _Gathered:
    X: Any
    names: list[str] | None
    ids: Any
    columns: ColumnStatistics | None


def _gather(files: list[DataFile], needs: Needs, positions: NDArray[np.int64], ids: Any) -> _Gathered:
    """Rows at these positions, in order, and those with one of these IDs."""
    import pyarrow as pa

    most, found_ids = len(positions) + (0 if ids is None else len(ids)), []
    rows: _Numbers | _Columns = _Columns() if needs.mixed else _Numbers(most)
    n_found = 0
    for start, path, batch in _batches(files, needs):
        if (row := batch.row_without_id()) is not None:
            raise InvalidDataError(
                f"{path} has no ID in column {needs.id_column!r} of row {row}; every row needs one."
            )
        first, stop = np.searchsorted(positions, [start, start + len(batch.X)])
        chosen = positions[first:stop] - start
        if ids is not None:
            chosen = np.union1d(chosen, _with_ids(batch.ids, ids))
        n_found += len(chosen)
        if n_found > most:
            raise InvalidDataError(
                f"{path} and the files before it have IDs that the pairs name more than once; IDs must be "
                "unique."
            )
        rows.add(batch, chosen, path)
        found = pa.chunked_array([start + chosen]) if batch.ids is None else batch.ids.take(chosen)
        found_ids += found.cast(common_id_type(found.type)).chunks
    joined = pa.chunked_array(found_ids)
    X, names, columns = rows.joined()
    return _Gathered(X, names, joined, columns)


class _Numbers:
    """Rows of numbers in one array, made once, and the statistics of all that were met."""

    def __init__(self, most: int) -> None:
        self._most, self._n_found = most, 0
        self._X: NDArray[Any] = np.empty((0, 0))
        self._names: list[str] | None = None
        self._columns = ColumnStream()

    def add(self, batch: RowBatch, chosen: NDArray[np.int64], path: str) -> None:
        values, self._names = self._checked(batch, chosen, path)
        if not self._X.size:
            self._X = np.empty((self._most, values.shape[1]), values.dtype)
        self._X = self._X.astype(np.result_type(self._X, values), copy=False)
        stop = self._n_found + len(chosen)
        self._X[self._n_found : stop] = values
        self._n_found = stop

    def _checked(
        self, batch: RowBatch, chosen: NDArray[np.int64], path: str
    ) -> tuple[NDArray[Any], list[str] | None]:
        """Some rows of a batch whose values are all finite, and the names of their columns."""
        columns = _plain_columns(batch.X)
        if columns and all(map(_sum_is_finite, columns)):
            self._require_width(len(columns), path)
            self._columns.add_columns(columns)
            return widen(batch.X.take(chosen))
        try:
            values, names = (batch.X, None) if isinstance(batch.X, np.ndarray) else widen(batch.X)
            require_finite(values, names)
        except InvalidDataError as error:
            raise InvalidDataError(f"{path}, counting from row {batch.first}: {error}") from error
        self._require_width(values.shape[1], path)
        self._columns.add(values)
        return values[chosen], names

    def _require_width(self, n_features: int, path: str) -> None:
        if self._X.size and n_features != self._X.shape[1]:
            raise InvalidDataError(
                f"{path} has {n_features} features, but the files before it have {self._X.shape[1]}."
            )

    def joined(self) -> tuple[Any, list[str] | None, ColumnStatistics | None]:
        return self._X[: self._n_found], self._names, self._columns.statistics()


class _Columns:
    """Rows of columns that hold anything, as one Arrow table."""

    def __init__(self) -> None:
        self._tables: list[Any] = []

    def add(self, batch: RowBatch, chosen: NDArray[np.int64], path: str) -> None:
        self._tables.append(batch.X.take(chosen))

    def joined(self) -> tuple[Any, list[str] | None, ColumnStatistics | None]:
        import pyarrow as pa

        return pa.concat_tables(self._tables, promote_options="permissive"), None, None


def _batches(files: list[DataFile], needs: Needs) -> Iterator[tuple[int, str, RowBatch]]:
    """Batches with the position of their first row in the data set, and the file."""
    before = 0
    for file in files:
        n_read = 0
        for batch in read_ahead(file.batches(needs)):
            yield before + batch.first, str(file.file), batch
            n_read = batch.first + len(batch.X)
        before += n_read


def _plain_columns(X: Any) -> list[NDArray[Any]]:
    """The columns of an Arrow table where all are plain numbers: then not all rows need be made."""
    if isinstance(X, np.ndarray) or vector_columns(X):
        return []
    columns = [np.asarray(column.to_numpy()) for column in X.columns]
    return columns if all(column.dtype.kind in "biuf" for column in columns) else []


def _sum_is_finite(column: NDArray[Any]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(column.sum(dtype=np.float32)))  # in float32, in which networks compute


def _with_ids(column: Any, ids: Any) -> NDArray[np.int64]:
    """Positions in a batch of the rows that have one of these IDs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        with suppress(pa.ArrowInvalid):  # of an ID that is no such number: then all are compared as texts
            return np.flatnonzero(np.asarray(pc.is_in(column, value_set=ids.cast(column.type))))
    text = column.cast(pa.string())
    return np.flatnonzero(np.asarray(pc.is_in(text, value_set=ids)))

"""Tables as people have them: numbers, categories, dates, booleans, texts and pictures side by side.

skrub's ``TableVectorizer`` encodes every column by itself. Afterwards columns are weighed, so that none
drowns the others: each has the same variance in all its numbers together; a column of texts or of pictures
has as much as all other columns together.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from spherepair.encoders.embedding import Floats, require
from spherepair.encoders.image import ImageEncoder
from spherepair.encoders.table_columns import INSTALL, KINDS, ColumnPlan, plan_fields
from spherepair.encoders.text import TextEncoder
from spherepair.errors import InvalidDataError, InvalidParameterError, listed, quoted

#: Kinds that need no further number for missing values.
_SAYS_MISSING = ("category", "boolean", "text", "image")
_TINY = 1e-12


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table of mixed columns into rows of numbers.

    Parameters
    ----------
    as_ : dict or sequence of str, optional
        Kind of some columns, such as ``{"zip": "category"}`` or ``["category:zip"]``: number, category, date,
        boolean, text or image (names of files). The kind of all others is found out.
    drop : sequence of str, default=()
        Columns to leave out.
    columns : sequence of str, optional
        Columns to use; all by default.
    text_model, image_model : str, default="auto"
        Model for columns of texts and of pictures; see :class:`TextEncoder` and :class:`ImageEncoder`.
    keep_empty : bool, default=False
        Whether empty texts and pictures that cannot be read are kept as rows without content.
    cache, progress
        As in :class:`TextEncoder`.

    Attributes
    ----------
    plans_ : list of ColumnPlan
        What is made of each column.
    feature_names_in_ : ndarray of str
        Columns of the table that it was fitted on.

    Examples
    --------
    >>> import pandas as pd
    >>> from spherepair.encoders import TableEncoder
    >>> table = pd.DataFrame({"age": [31, 45, None, 28], "city": ["Rome", "Oslo", "Rome", None]})
    >>> encoder = TableEncoder().fit(table)
    >>> print(encoder.describe())
    age   number, 1 missing
    city  category of 2 values, 1 missing
    >>> encoder.transform(table).shape
    (4, 5)
    """

    def __init__(
        self,
        as_: Mapping[str, str] | Sequence[str] | None = None,
        *,
        drop: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        text_model: str = "auto",
        image_model: str = "auto",
        keep_empty: bool = False,
        cache: bool = True,
        progress: Any = "auto",
    ) -> None:
        self.as_ = as_
        self.drop = drop
        self.columns = columns
        self.text_model = text_model
        self.image_model = image_model
        self.keep_empty = keep_empty
        self.cache = cache
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find out what the columns hold and learn how to encode them.

        Parameters
        ----------
        X : pandas, polars or pyarrow table, or array, of shape (n_rows, n_columns)
        y : ignored
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Floats:
        """Fit, and encode the same rows; see :meth:`fit`."""
        kinds = parse_kinds(self.as_)
        frame = _as_frame(X, self, reset=True)
        wanted = self._wanted(list(frame.columns), kinds)
        fields = [name for name in wanted if kinds.get(name) not in ("text", "image")]
        table = _to_pandas(frame, fields) if fields else None
        found = [] if table is None else plan_fields(table, kinds)
        plans = {plan.name: plan for plan in found}
        plans |= {name: ColumnPlan(name, kinds[name]) for name in wanted if name not in plans}
        encoded = [self._fit_column(plans[name], frame, table) for name in wanted]
        self.plans_ = _balance([plan for plan, _ in encoded])
        if not any(plan.outputs for plan in self.plans_):
            raise InvalidDataError(f"no column can be used: {'; '.join(self.describe().splitlines())}.")
        return np.hstack([_weigh(p, values) for p, (_, values) in zip(self.plans_, encoded, strict=True)])

    def transform(self, X: Any) -> Floats:
        """Encode rows.

        Parameters
        ----------
        X : as in fit; further columns are ignored

        Returns
        -------
        rows : ndarray of shape (n, n_features)
        """
        check_is_fitted(self)
        frame = _as_frame(X, self, reset=False)
        _refuse_missing(self.used_columns(), list(frame.columns))
        used = [plan for plan in self.plans_ if plan.outputs]
        fields = [plan.name for plan in used if plan.is_field]
        table = _to_pandas(frame, fields) if fields else None
        return np.hstack([_weigh(plan, _with_missing(plan, *_encode(plan, frame, table))) for plan in used])

    def used_columns(self, kind: str | None = None) -> list[str]:
        """Names of the columns that are used, all or those of one kind."""
        check_is_fitted(self)
        return [plan.name for plan in self.plans_ if plan.outputs and kind in (None, plan.kind)]

    def shown_columns(self, X: Any) -> dict[str, NDArray[Any]]:
        """Columns for people to look at: numbers as they are, years of dates, words of everything else."""
        frame = _as_frame(X, self, reset=False)
        fields = [plan for plan in self.plans_ if plan.outputs and plan.is_field]
        table = _to_pandas(frame, [plan.name for plan in fields]) if fields else {}
        return {plan.name: plan.readable(table[plan.name]) for plan in fields}

    def describe(self) -> str:
        """What is made of each column, one line each."""
        check_is_fitted(self)
        pad = max(len(plan.name) for plan in self.plans_)
        return "\n".join(f"{plan.name:<{pad}}  {plan.made}" for plan in self.plans_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the numbers, by the columns that they come from."""
        check_is_fitted(self)
        return np.array([name for plan in self.plans_ for name in plan.outputs], dtype=object)

    def _wanted(self, names: list[str], kinds: Mapping[str, str]) -> list[str]:
        drop = [self.drop] if isinstance(self.drop, str) else list(self.drop)
        chosen = names if self.columns is None else list(self.columns)
        unknown = [name for name in (*drop, *kinds, *chosen) if name not in names]
        if unknown:
            raise InvalidDataError(
                f"the table has no column {listed(list(dict.fromkeys(unknown)))}; it has {listed(names)}."
            )
        wanted = [name for name in chosen if name not in drop]
        if not wanted:
            raise InvalidDataError("no column is left; drop fewer.")
        return wanted

    def _fit_column(self, plan: ColumnPlan, frame: Any, table: Any) -> tuple[ColumnPlan, Floats]:
        """The plan with its weights, and the numbers of the column before they are weighed."""
        if plan.kind == "left out":
            return plan, np.empty((len(frame), 0), dtype=np.float32)
        if not plan.is_field:
            plan = self._fit_contents(plan, frame)
        values, is_missing = _encode(plan, frame, table)
        plan = replace(plan, counts_missing=bool(is_missing.any()) and plan.kind not in _SAYS_MISSING)
        values = _with_missing(plan, values, is_missing)
        return _learn_weights(plan, values), values

    def _fit_contents(self, plan: ColumnPlan, frame: Any) -> ColumnPlan:
        """Fit the encoder of a column of texts or of pictures."""
        shared = {"cache": self.cache, "progress": self.progress}
        if plan.kind == "text":
            empty = "keep" if self.keep_empty else "raise"
            encoder: Any = TextEncoder(self.text_model, on_empty=empty, **shared)
        else:
            empty = "empty" if self.keep_empty else "raise"
            encoder = ImageEncoder(self.image_model, on_unreadable=empty, **shared)
        with _naming(plan.name):
            encoder.fit(frame[plan.name].to_list())
        return replace(plan, made=f"{plan.kind}, {encoder.describe()}", steps=[encoder])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "plans_")  # as_ looks like an attribute of a fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags


def parse_kinds(as_: Mapping[str, str] | Sequence[str] | None) -> dict[str, str]:
    """Kind of each column that was given one.

    Examples
    --------
    >>> parse_kinds(["category:zip", "text:title: long"])
    {'zip': 'category', 'title: long': 'text'}
    """
    if as_ is None:
        return {}
    given = [as_] if isinstance(as_, str) else as_
    pairs = given.items() if isinstance(given, Mapping) else (text.partition(":")[::-2] for text in given)
    kinds = dict(pairs)
    for name, kind in kinds.items():
        if kind not in KINDS or not name:
            raise InvalidParameterError(
                f"as_ must be kinds and columns such as 'category:zip', with the kinds {', '.join(KINDS)}; "
                f"got {quoted(as_)} instead."
            )
    return kinds


def _as_frame(X: Any, encoder: TableEncoder, *, reset: bool) -> Any:
    """The table as a narwhals frame; an array gets names of columns."""
    nw = require("narwhals", why="a TableEncoder", install=INSTALL)
    if not hasattr(X, "columns"):
        array = validate_data(
            encoder, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=1 + reset
        )
        pd = require("pandas", why="a TableEncoder", install=INSTALL)
        X = pd.DataFrame(array, columns=[f"x{place}" for place in range(array.shape[1])]).infer_objects()
    elif reset:
        validate_data(encoder, X, reset=True, skip_check_array=True)
    frame = nw.from_native(X, eager_only=True)
    if len(frame) < 1 + reset:
        raise InvalidDataError(f"the table has {len(frame)} row(s); at least {1 + reset} are needed.")
    twice = sorted({name for name in frame.columns if list(frame.columns).count(name) > 1})
    if twice:
        raise InvalidDataError(
            f"X has more than one column named {quoted(twice[0])}; rename or drop one of them."
        )
    return frame


def _to_pandas(frame: Any, names: list[str]) -> Any:
    nw = require("narwhals", why="a table", install=INSTALL)
    part = frame.select(names)
    booleans = [name for name, kind in part.schema.items() if kind == nw.Boolean]
    if booleans:  # missing ones would make objects of them
        part = part.with_columns(nw.col(*booleans).cast(nw.Float32))
    table = part.to_pandas().reset_index(drop=True)
    for name, dtype in table.dtypes.items():
        if dtype.kind == "O" and isinstance(next(iter(table[name].dropna()), None), bytes):
            table[name] = _decoded(name, table[name])
    return table


def _decoded(name: str, values: Any) -> Any:
    """Texts of a column that says that it holds bytes, as some programs write them to parquet files."""
    try:
        return values.str.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDataError(
            f"column {quoted(name)} holds bytes that are no text in UTF-8; leave it out with "
            f"drop=[{quoted(name)}]."
        ) from error


def _encode(plan: ColumnPlan, frame: Any, table: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """Numbers of one column, not yet weighed, and where there are none; `table` has those of skrub."""
    if plan.is_field:
        return plan.encode(table[plan.name])
    with _naming(plan.name):
        found = plan.steps[0].transform(frame[plan.name].to_list())
    return found, np.zeros(len(found), dtype=bool)


def _with_missing(plan: ColumnPlan, values: Floats, is_missing: NDArray[np.bool_]) -> Floats:
    if not plan.counts_missing:
        return values
    return np.column_stack([values, is_missing.astype(np.float32)])


def _learn_weights(plan: ColumnPlan, values: Floats) -> ColumnPlan:
    """The plan with the means of its numbers, and with variance one for all of them together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a number that is always missing
        mean = np.nan_to_num(np.nanmean(values, axis=0, dtype=np.float64))
    variance = np.where(np.isnan(values), mean, values).var(axis=0, dtype=np.float64)
    if plan.kind == "date":
        variance = _variance_of_dates(variance, counts_missing=plan.counts_missing)
    else:
        variance = np.full(len(variance), max(variance.sum(), _TINY))
    names = [plan.name] if len(mean) == 1 else [f"{plan.name}_{place}" for place in range(len(mean))]
    return replace(plan, outputs=names, shift=mean, factor=1.0 / np.sqrt(variance))


def _variance_of_dates(variance: Any, *, counts_missing: bool) -> Any:
    """What the numbers of dates are divided by: years and seconds are in different units."""
    parts = variance[:-1] if counts_missing else variance
    is_constant = parts <= _TINY
    divided = np.where(is_constant, np.inf, parts)
    if counts_missing:  # not divided by its own spread: one missing date would be far from everything
        divided = np.append(divided, 1.0)
    return divided * max(1, np.count_nonzero(~is_constant))


def _balance(plans: list[ColumnPlan]) -> list[ColumnPlan]:
    """Columns of texts and pictures weigh as much as all other columns together; numbers have spread one."""
    used = [plan for plan in plans if plan.outputs]
    n_fields = sum(plan.is_field for plan in used)
    weights = {plan.name: 1 if plan.is_field else max(1, n_fields) for plan in used}
    scale = sum(len(plan.outputs) for plan in used) / max(1, sum(weights.values()))
    return [
        replace(plan, factor=plan.factor * np.sqrt(weights[plan.name] * scale)) if plan.outputs else plan
        for plan in plans
    ]


def _weigh(plan: ColumnPlan, values: Floats) -> Floats:
    if not plan.outputs:
        return values
    filled = np.where(np.isnan(values), plan.shift, values)
    return np.asarray((filled - plan.shift) * plan.factor, dtype=np.float32)


class _naming:  # noqa: N801
    """Put the name of the column before what an encoder says of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, InvalidDataError):
            raise InvalidDataError(f"column {quoted(self._name)}: {error}", row=error.row) from error


def _refuse_missing(needed: list[str], names: list[str]) -> None:
    missing = [name for name in needed if name not in names]
    if missing:
        raise InvalidDataError(
            f"the table lacks {len(missing)} of the {len(needed)} columns that the encoder was fitted on: "
            f"{listed(missing)}."
        )

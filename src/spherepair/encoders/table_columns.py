"""How each column of a table is encoded: its kind, guessed or given, and its transformers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder

from spherepair.encoders.embedding import Floats, require
from spherepair.errors import UnusableColumnsError
from spherepair.files.arrow_rows import not_numeric

KINDS = ("number", "category", "date", "boolean", "text", "image")
#: Columns with fewer distinct words are categories; with more, each word is described by its letters.
MOST_CATEGORIES, WORD_NUMBERS = 40, 30
#: A category column named by the user becomes at most so many columns; the rarest categories share one.
MOST_ASKED_CATEGORIES = 100
#: Up to this share of words, a column is taken for numbers with typing errors.
RARE_SHARE = 0.1
#: A column of words is text if half of its values have so many words and this share is distinct.
TEXT_WORDS, TEXT_DIFFERENT = 4, 0.5
_ID_NAMES = ("id", "index", "key", "row", "uuid", "guid", "unnamed: 0", "")
#: What to install for tables.
INSTALL = '"spherepair[tables]"'


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """What is made of one column.

    Attributes
    ----------
    name : str
    kind : str
        One of ``KINDS``, "words" or "left out".
    made : str
        What is made of it, for people.
    is_asked : bool
        Whether the user named the kind.
    steps : list
        Fitted transformers of skrub and scikit-learn, or one of our encoders; applied one after the other.
    outputs : list of str
        Names of its numbers.
    shift, factor : ndarray of shape (n_outputs,)
        Mean, which also stands for a missing number, and what the difference from it is multiplied by.
    counts_missing : bool
        Whether the last number says that the value is missing.
    """

    name: str
    kind: str
    made: str = ""
    is_asked: bool = False
    steps: list[Any] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    shift: Any = None
    factor: Any = None
    counts_missing: bool = False

    @property
    def is_field(self) -> bool:
        """Whether skrub encodes it."""
        return self.kind not in ("text", "image", "left out")

    def encode(self, values: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """Numbers (n, n_outputs) of a pandas column, not yet weighed, and where there are none, (n,)."""
        column = _as_kind(values, self)
        is_missing = column.isna().to_numpy(dtype=bool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of categories that were not there before
            for step in self.steps:
                is_series = hasattr(step, "__single_column_transformer__") or column.ndim == 2
                column = step.transform(column if is_series else column.to_frame())
        found = np.asarray(column, dtype=np.float32).reshape(len(values), -1)
        return found, is_missing | np.isnan(found).any(axis=1)

    def readable(self, values: Any) -> NDArray[Any]:
        """A pandas column as numbers or words that people can read."""
        column = _as_kind(values, self)
        if self.kind == "number":
            return np.asarray(column, dtype=np.float64)
        if self.kind == "date":
            return np.asarray(self.encode(values)[0][:, 0], dtype=np.float64)  # skrub gives the year first
        return np.asarray(column.fillna(""), dtype=object)


def is_mixed(table: Any) -> bool:
    """Whether columns of an Arrow table hold more than numbers, or too few of them: it has to be encoded."""
    return bool(not_numeric(table)) or any(column.null_count for column in table.columns)


def plan_fields(table: Any, kinds: Mapping[str, str]) -> list[ColumnPlan]:
    """Plans of the columns of a pandas table, of which some were asked to be of a kind.

    Columns that hold texts get their plan without steps.
    """
    skrub = require("skrub", why="a table of mixed columns", install=INSTALL)
    cleaned = _clean(skrub, table)
    kinds = {name: "category" for name in table.columns if _are_codes(table[name])} | dict(kinds)
    plans, mistyped = [], []
    for name in table.columns:
        values = cleaned.get(name)
        kind, made = (kinds[name], "") if name in kinds else _guess(name, values)
        if kind == "mistyped":
            mistyped.append(_first_mistyped(name, values))
        plans.append(ColumnPlan(name, kind, made, is_asked=name in kinds))
    if mistyped:
        raise UnusableColumnsError(mistyped)
    return _fit_steps(skrub, table, plans, cleaned)


def _clean(skrub: Any, table: Any) -> Any:
    """The columns with numbers and dates in place of texts that say them; empty columns are gone."""
    types = require("pandas.api.types", why="a table", install=INSTALL)
    numbers = [name for name in table.columns if types.is_numeric_dtype(table[name])]
    cleaned = {name: table[name] for name in numbers if table[name].notna().any()}
    others = table.drop(columns=numbers)
    if others.shape[1]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of guesses at the formats of dates
            cleaned |= dict(skrub.Cleaner(parse_numbers=True).fit_transform(others).items())
    return cleaned


def _are_codes(values: Any) -> bool:
    """Whether some values are digits with a zero in front, such as the zip code 01234."""
    types = require("pandas.api.types", why="a table", install=INSTALL)
    if not types.is_string_dtype(values):
        return False
    return bool(values.dropna().astype(str).str.fullmatch(r"0[0-9]+").any())


def _guess(name: str, values: Any) -> tuple[str, str]:
    """Kind of a cleaned column, and why it is left out, if it is."""
    types = require("pandas.api.types", why="a table", install=INSTALL)
    if values is None:
        return "left out", "left out: it is empty"
    present = values.dropna()
    n_different = present.astype(str).nunique() if present.dtype == object else present.nunique()
    if n_different <= 1 and len(present) == len(values):
        return "left out", "left out: the same value in all rows"
    is_unique = n_different == len(present) and len(present) >= MOST_CATEGORIES
    if types.is_datetime64_any_dtype(values):
        return "date", ""
    if types.is_numeric_dtype(values) or types.is_timedelta64_dtype(values):
        return _like_id(name) if is_unique and _is_id_name(name) else ("number", "")
    return _guess_words(name, present, n_different, is_unique=is_unique)


def _guess_words(name: str, present: Any, n_different: int, *, is_unique: bool) -> tuple[str, str]:
    """Kind of a column that holds no numbers and no dates."""
    n_mistyped = int(_numbers(present).isna().sum())
    if n_mistyped <= RARE_SHARE * len(present):
        return "mistyped", ""
    if n_different < MOST_CATEGORIES:
        return "category", ""
    n_words = present.astype(str).str.count(r"\S+").median()
    if n_words >= TEXT_WORDS and n_different >= TEXT_DIFFERENT * len(present):
        return "text", ""
    return _like_id(name) if is_unique and n_words <= 1 else ("words", "")


def _like_id(name: str) -> tuple[str, str]:
    use = f'as_={{"{name}": "category"}}'
    return "left out", f"left out: a different value in every row, like an id; {use} uses it"


def _is_id_name(name: str) -> bool:
    plain = name.strip().lower()
    return plain in _ID_NAMES or plain.endswith(("_id", " id", "-id"))


def _first_mistyped(name: str, values: Any) -> tuple[str, int, str, int, int]:
    """Column, first row that is no number, its value, how many there are, and of how many."""
    is_word = (values.notna() & _numbers(values).isna()).to_numpy(dtype=bool)
    first = int(np.argmax(is_word))
    return name, first, str(values.iloc[first]), int(is_word.sum()), int(values.notna().sum())


def _fit_steps(skrub: Any, table: Any, plans: list[ColumnPlan], cleaned: Any) -> list[ColumnPlan]:
    """The plans with the transformers of each column, and with what is made of it."""
    fields = [plan for plan in plans if plan.is_field]
    if not fields:
        return plans
    given = type(table)({plan.name: _as_kind(table[plan.name], plan) for plan in fields})
    # Skrub cleans these no further: digits that are asked to be categories must not become numbers again.
    asked = [plan.name for plan in fields if plan.is_asked and plan.kind in ("category", "boolean")]
    vectorizer = skrub.TableVectorizer(
        numeric=skrub.SquashingScaler(),
        datetime=skrub.DatetimeEncoder(periodic_encoding="circular"),
        low_cardinality=_categories(),
        high_cardinality=skrub.StringEncoder(n_components=WORD_NUMBERS, random_state=0),
        cardinality_threshold=MOST_CATEGORIES,
        drop_null_fraction=None,
        specific_transformers=[(_categories(), asked)] if asked else [],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vectorizer.fit(given)
    steps = vectorizer.all_processing_steps_
    return [
        plan
        if not plan.is_field
        else replace(
            plan,
            # The last entry has casts to float, which we do ourselves.
            steps=[step for step in steps[plan.name] if hasattr(step, "transform")],
            made=_made(plan, given[plan.name] if plan.is_asked else cleaned[plan.name]),
        )
        for plan in plans
    ]


def _categories() -> Any:
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=MOST_ASKED_CATEGORIES,
        sparse_output=False,
        dtype=np.float32,
    )


def _made(plan: ColumnPlan, values: Any) -> str:
    said = {
        "category": f"category of {values.nunique():,} value{'s' * (values.nunique() != 1)}",
        "boolean": "yes or no",
        "words": f"words, {values.nunique():,} different ones, as {WORD_NUMBERS} numbers",
    }.get(plan.kind, plan.kind)
    n_missing = int(values.isna().sum())
    return f"{said}, {n_missing:,} missing" if n_missing else said


def _as_kind(values: Any, plan: ColumnPlan) -> Any:
    """A column as what it is, whatever type the reader of a file took it for."""
    types = require("pandas.api.types", why="a table", install=INSTALL)
    if plan.kind == "number":
        return values if types.is_timedelta64_dtype(values) else _numbers(values).astype(np.float64)
    if plan.kind == "date":
        return _as_dates(values, plan)
    return _as_words(values)


def _as_words(values: Any) -> Any:
    pd = require("pandas", why="a table", install=INSTALL)
    if pd.api.types.is_float_dtype(values) and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")  # codes such as 7, which are floats because one is missing
    words = values.astype("str").str.strip()
    return words.mask(values.isna() | (words == ""), None)


def _as_dates(values: Any, plan: ColumnPlan) -> Any:
    """Dates, or texts for skrub to find their format."""
    pd = require("pandas", why="a table", install=INSTALL)
    if pd.api.types.is_datetime64_any_dtype(values):
        return values
    is_parsed_later = any(type(step).__name__ == "ToDatetime" for step in plan.steps)
    if is_parsed_later or not (plan.steps or plan.is_asked):
        return values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats that differ from row to row
        return pd.to_datetime(values.astype("str"), errors="coerce", format="mixed")


def _numbers(values: Any) -> Any:
    return require("pandas", why="a table", install=INSTALL).to_numeric(values, errors="coerce")

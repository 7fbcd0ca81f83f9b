"""Rows as a reader sees them: a name, and an image, a text or the values of some columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.errors import InvalidDataError
from spherepair.report.images import ImageShape, png_uri
from spherepair.report.placement import BORDERLINE, Placement

Integers = NDArray[np.int64]
#: Longer texts are cut: a report is for looking, not for reading through.
MOST_LETTERS = 320


@dataclass(frozen=True)
class RowCard:
    """One row to be shown.

    Attributes
    ----------
    row : int
        Its position in the table.
    name : str
    cluster, other : int
        Its cluster and the nearest other one; -1 for none.
    sureness : float
    text, image : str or None
        Its text, or its picture as a data address.
    values : tuple of str
        Of the columns that are shown beside it.
    """

    row: int
    name: str
    cluster: int
    other: int
    sureness: float
    text: str | None
    image: str | None
    values: tuple[str, ...]

    @property
    def is_borderline(self) -> bool:
        """Whether the row nearly belongs to another cluster."""
        return self.sureness < BORDERLINE


@dataclass(frozen=True, eq=False)
class Gallery:
    """Everything needed to show any row.

    Attributes
    ----------
    table : ndarray or CSR matrix of shape (n, n_features)
    placement : Placement
    columns : list of str
        Name of each feature.
    ids, texts : list of str or None
        Name and text of each row.
    image_shape : ImageShape or None
    """

    table: Any
    placement: Placement
    columns: list[str]
    ids: list[str] | None
    texts: list[str] | None
    image_shape: ImageShape | None

    @property
    def kind(self) -> str:
        """What rows are shown as: "text", "image" or "values"."""
        if self.texts is not None:
            return "text"
        return "values" if self.image_shape is None else "image"

    def dense(self, rows: Integers) -> NDArray[Any]:
        """Some rows (m, n_features) as plain numbers."""
        found = self.table[rows]
        return np.asarray(found.toarray() if sparse.issparse(found) else found)

    def name(self, row: int) -> str:
        """The id of a row, or its position."""
        return f"row {row}" if self.ids is None else self.ids[row]

    def cards(self, rows: Integers, columns: Integers | None = None) -> tuple[RowCard, ...]:
        """Rows (m,) with the values of some columns: the same (c,) for all rows, or (m, c)."""
        values = self.dense(rows) if self.kind != "text" else None
        pictures = None
        if self.kind == "image" and self.image_shape is not None:
            pictures = self.image_shape.pixels(values)
        shown = _chosen_values(values, columns) if self.kind == "values" else [()] * len(rows)
        return tuple(
            self._card(row, None if pictures is None else png_uri(pictures[place]), shown[place])
            for place, row in enumerate(rows.tolist())
        )

    def _card(self, row: int, image: str | None, values: tuple[str, ...]) -> RowCard:
        return RowCard(
            row=row,
            name=self.name(row),
            cluster=int(self.placement.labels[row]),
            other=int(self.placement.other[row]),
            sureness=float(self.placement.sureness[row]),
            text=None if self.texts is None else shorten(self.texts[row]),
            image=image,
            values=values,
        )


def as_texts(values: Any, n_rows: int, *, what: str) -> list[str] | None:
    """A column of any library as strings, one for each row; nothing for missing values.

    Examples
    --------
    >>> as_texts(np.array([1, 2]), 2, what="ids")
    ['1', '2']
    """
    if values is None:
        return None
    for convert in ("to_pylist", "tolist", "to_list"):
        if hasattr(values, convert):
            values = getattr(values, convert)()
            break
    if len(values) != n_rows:
        raise InvalidDataError(
            f"{what} must have one entry for each of the {n_rows:,} rows, got {len(values):,} instead."
        )
    return ["" if value is None else str(value) for value in values]


def shorten(text: str, most: int = MOST_LETTERS) -> str:
    """A text on one line, cut at a word where it is long.

    Examples
    --------
    >>> shorten("  some   words here ", 10)
    'some words …'
    """
    line = " ".join(text.split())
    if not line:
        return "(empty)"
    if len(line) <= most:
        return line
    cut = line[: most + 1]
    # A single endless word is cut anywhere.
    return (cut.rsplit(" ", 1)[0] if " " in cut else line[:most]).rstrip() + " …"


def format_number(value: float) -> str:
    """Three digits that count, without powers of ten where they can be avoided.

    Examples
    --------
    >>> [format_number(value) for value in (0.0, 12345.6, 3.14159, 0.00012, 5)]
    ['0', '12,346', '3.14', '0.00012', '5']
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.3g}"


def _chosen_values(values: Any, columns: Integers | None) -> Sequence[tuple[str, ...]]:
    if columns is None:
        return [()] * len(values)
    chosen = np.take_along_axis(values, np.broadcast_to(columns, (len(values), columns.shape[-1])), axis=1)
    return [tuple(map(format_number, line)) for line in chosen.tolist()]

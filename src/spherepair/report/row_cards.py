"""How a row is shown: its name, and an image, a text or the values of some columns.

Images become small PNG files without any image library.
"""

from __future__ import annotations

import base64
import copy
import math
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.encoders.shown import shown_content
from spherepair.errors import InvalidDataError, InvalidParameterError, quoted
from spherepair.estimators.job import detach_encoder, encode_rows, takes_raw_rows

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
#: A row with a silhouette below this is borderline: the next center is less than a third farther away.
BORDERLINE = 0.25
#: Longer texts are cut: a report is for looking, not for reading through.
_TEXT_LENGTH = 320
_SAMPLE_ROWS = 400
_SMALLEST_SIDE = 6
#: Neighboring pixels of an image differ less than this share of what distant ones do.
_SMOOTH = 0.8


@dataclass(frozen=True)
class RowCard:
    """One row to be shown.

    Attributes
    ----------
    row : int
        Its position in the table.
    name : str
    cluster, next_cluster : int
        Its cluster and the nearest other one; -1 for none.
    silhouette : float
        How clearly the row belongs to its cluster, see :class:`spherepair.report.cluster_cards.Membership`.
    text, image : str or None
        Its text, or its picture as a data URI.
    values : tuple of str
        Values of the columns that are shown beside it.
    """

    row: int
    name: str
    cluster: int
    next_cluster: int
    silhouette: float
    text: str | None
    image: str | None
    values: tuple[str, ...]

    @property
    def is_borderline(self) -> bool:
        """Whether the row nearly belongs to another cluster."""
        return self.silhouette < BORDERLINE


@dataclass(frozen=True)
class ImageShape:
    """Size of the images, and the values that are black and white."""

    height: int
    width: int
    channels: int
    low: float = 0.0
    high: float = 1.0

    def pixels(self, rows: Any) -> Bytes:
        """Rows (n, n_features) as bytes (n, height, width, channels)."""
        scaled = (np.asarray(rows, dtype=np.float64) - self.low) / max(self.high - self.low, 1e-12)
        shape = (-1, self.height, self.width, self.channels)
        return np.asarray(np.clip(255 * scaled, 0, 255).round(), dtype=np.uint8).reshape(shape)


@dataclass(frozen=True, eq=False)
class RowDisplay:
    """Everything needed to show any row.

    Attributes
    ----------
    table : ndarray or CSR matrix of shape (n, n_features)
    columns : list of str
        Name of each feature.
    ids, texts : list of str or None
        Name and text of each row.
    image_shape : ImageShape or None
    labels, next_clusters : ndarray of shape (n,)
        Cluster of each row and the nearest other one.
    silhouettes : ndarray of shape (n,)
    """

    table: Any
    columns: list[str]
    ids: list[str] | None
    texts: list[str] | None
    image_shape: ImageShape | None
    labels: Integers
    next_clusters: Integers
    silhouettes: NDArray[np.float64]

    @property
    def kind(self) -> str:
        """What rows are shown as: "text", "image" or "values"."""
        if self.texts is not None:
            return "text"
        return "values" if self.image_shape is None else "image"

    def dense(self, rows: Integers) -> NDArray[Any]:
        """Some rows (m, n_features) as a dense array."""
        found = self.table[rows]
        return np.asarray(found.toarray() if sparse.issparse(found) else found)

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
            name=f"row {row}" if self.ids is None else self.ids[row],
            cluster=int(self.labels[row]),
            next_cluster=int(self.next_clusters[row]),
            silhouette=float(self.silhouettes[row]),
            text=None if self.texts is None else shorten(self.texts[row]),
            image=image,
            values=values,
        )


def as_texts(values: Any, n_rows: int, *, what: str) -> list[str] | None:
    """A column of any library as strings, one for each row; missing values become empty.

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


def shorten(text: str, longest: int = _TEXT_LENGTH) -> str:
    """A text on one line, cut after a word if it is too long.

    Examples
    --------
    >>> shorten("  some   words here ", 10)
    'some words …'
    """
    line = " ".join(text.split())
    if not line:
        return "(empty)"
    if len(line) <= longest:
        return line
    cut = line[: longest + 1]
    # A single endless word is cut anywhere.
    return (cut.rsplit(" ", 1)[0] if " " in cut else line[:longest]).rstrip() + " …"


def format_number(value: float) -> str:
    """Three significant digits, in plain notation if possible.

    Examples
    --------
    >>> [format_number(value) for value in (0.0, 12345.6, 3.14159, 0.00012, 5)]
    ['0', '12,346', '3.14', '0.00012', '5']
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.3g}"


def find_image_shape(table: Any, wanted: str = "auto") -> ImageShape | None:
    """Shape of the images that the rows of a table hold, or ``None`` if they are no images.

    Parameters
    ----------
    table : ndarray or CSR matrix of shape (n, n_features)
    wanted : "auto", "none", "HxW" or "HxWx3"
        With ``"auto"`` rows are images if their number of values is a square and neighboring values
        are alike, as pixels are.

    Examples
    --------
    >>> find_image_shape(np.arange(24.0).reshape(2, 12), "3x4")
    ImageShape(height=3, width=4, channels=1, low=0.0, high=23.0)
    """
    if wanted == "none":
        return None
    sample = _dense_sample(table)
    low, high = float(sample.min(initial=0.0)), float(sample.max(initial=0.0))
    if wanted != "auto":
        return ImageShape(*_parse(wanted, table.shape[1]), low=low, high=high)
    side = math.isqrt(table.shape[1])
    if side < _SMALLEST_SIDE or side**2 != table.shape[1] or not _is_smooth(sample, side):
        return None
    return ImageShape(side, side, 1, low=low, high=high)


def png_uri(pixels: Bytes) -> str:
    """Pixels (height, width, channels) as a PNG in a data URI.

    Examples
    --------
    >>> png_uri(np.zeros((1, 1, 1), dtype=np.uint8))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    # Every line begins with the number of its filter: 0, none.
    lines = np.pad(pixels.reshape(height, width * channels), ((0, 0), (1, 0)))
    data = zlib.compress(lines.tobytes(), 9)
    content = b"".join(_chunk(*part) for part in ((b"IHDR", header), (b"IDAT", data), (b"IEND", b"")))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _parse(text: str, n_features: int) -> tuple[int, int, int]:
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})(?:x([13]))?", text.strip().lower())
    if found is None:
        raise InvalidParameterError(
            "image must be 'auto', 'none' or height x width such as '28x28' or '32x32x3', "
            f"got {quoted(text)} instead."
        )
    height, width, channels = int(found[1]), int(found[2]), int(found[3] or 1)
    if height * width * channels != n_features:
        raise InvalidParameterError(
            f"image={quoted(text)} has {height * width * channels:,} values, but rows have {n_features:,} "
            "features; give the size of your images, or 'none'."
        )
    return height, width, channels


def _dense_sample(table: Any) -> NDArray[np.float64]:
    rows = table[np.unique(np.linspace(0, table.shape[0] - 1, _SAMPLE_ROWS).astype(np.int64))]
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _is_smooth(sample: NDArray[np.float64], side: int) -> bool:
    """Whether values differ less from their neighbors than from distant values."""
    images = sample.reshape(-1, side, side)
    far = np.abs(images - np.roll(images, (side // 2, side // 3), axis=(1, 2))).mean()
    near = max(np.abs(np.diff(images, axis=axis)).mean() for axis in (1, 2))
    return bool(near < _SMOOTH * far)


def _chosen_values(values: Any, columns: Integers | None) -> Sequence[tuple[str, ...]]:
    if columns is None:
        return [()] * len(values)
    chosen = np.take_along_axis(values, np.broadcast_to(columns, (len(values), columns.shape[-1])), axis=1)
    return [tuple(map(format_number, line)) for line in chosen.tolist()]


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Rows for the computer and for people.

    Attributes
    ----------
    model : estimator
        The model without its encoder.
    encoded : Any
        The rows as the model sees them.
    table : ndarray or CSR matrix of shape (n_rows, n_shown)
        What is shown of them.
    names : list of str
        Name of each column of `table`.
    texts : list of str or None
    image : str
        Size of the pictures that the rows of `table` are, or "none".
    """

    model: Any
    encoded: Any
    table: Any
    names: list[str]
    texts: list[str] | None = None
    image: str = "none"


def shown_rows(model: Any, X: Any) -> ShownRows | None:
    """What to show of raw rows; ``None`` for rows that are numbers already."""
    if not takes_raw_rows(model):
        return None
    encoded = encode_rows(model, X, reset=False)
    plain = copy.copy(model)
    encoder = detach_encoder(plain)
    found = shown_content(encoder, X)
    table, names, further = found or (encoded, [f"column {k}" for k in range(encoded.shape[1])], {})
    return ShownRows(plain, encoded, table, names, **further)

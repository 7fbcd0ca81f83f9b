"""What ``spherepair ask`` reads, and how it shows a question: rows as texts, values of columns or pictures.

A card goes to the terminal with rich. Pictures also go to a local page without scripts, which is rewritten
for every question.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text
from scipy import sparse

from spherepair.asking import ChoiceQuestion, GroupQuestion, PairQuestion
from spherepair.asking.questions import Question
from spherepair.cli.raw_rows import ColumnChoice, encode, read_raw
from spherepair.cli.terminal import Terminal
from spherepair.constraints import Constraints
from spherepair.constraints.pairs_file import read_questions
from spherepair.encoders import TableEncoder
from spherepair.errors import InvalidDataError
from spherepair.estimators.spherepair import SpherePair
from spherepair.files import atomic_write_text
from spherepair.files.data_tables import Table, is_picture_folder
from spherepair.files.places import Source
from spherepair.report.row_cards import (
    ImageShape,
    as_texts,
    find_image_shape,
    format_number,
    png_uri,
    shorten,
)
from spherepair.validation import check_table

#: Columns of a table that one card shows, at most.
MOST_LINES = 12
#: Images with longer sides are only drawn on the page.
LARGEST_DRAWN_SIDE = 32
#: Smaller images are drawn twice as large.
SMALL_SIDE = 12
LONGEST_TEXT, SHORT_TEXT = 600, 60
_SAMPLE_ROWS = 2000
_SHADES = " ░▒▓█"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data: file:; style-src 'unsafe-inline'">
<meta http-equiv="refresh" content="1"><title>spherepair ask</title>
<style>body {{ font: 16px/1.4 system-ui, sans-serif; margin: 2rem; background: #f6f6f4; color: #222 }}
section {{ display: flex; flex-wrap: wrap; gap: 1rem }}
figure {{ margin: 0; padding: .6rem; background: #fff; border: 1px solid #ccc; border-radius: 6px }}
figure.first {{ border: 3px solid #2b6cb0 }}
img {{ display: block; width: 12rem; height: 12rem; object-fit: contain; image-rendering: {rendering} }}
figcaption {{ text-align: center; max-width: 12rem; overflow-wrap: anywhere }}</style></head>
<body><h1>{title}</h1>
<section>{figures}</section>
</body></html>
"""


@dataclass(frozen=True, eq=False)
class Items:
    """What a person or a program sees of each row.

    Attributes
    ----------
    table : ndarray or CSR matrix of shape (n_rows, n_features)
    columns : tuple of str or None
        Name of each feature.
    ids : list of str or None
    texts : list of str or None
    pictures : list of str or None
        Files of the pictures.
    image_shape : ImageShape or None
        Set where the rows are pixels.
    records : Arrow table or None
        The rows as they are in the file, where they were encoded.
    """

    table: Any
    columns: tuple[str, ...] | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None
    pictures: list[str] | None = None
    image_shape: ImageShape | None = None
    records: Any = None

    @property
    def has_images(self) -> bool:
        """Whether there is something to see on a page."""
        return self.texts is None and (self.pictures is not None or self.image_shape is not None)

    def name(self, row: int) -> str:
        """The ID of a row, or its number."""
        return f"row {row}" if self.ids is None else printable(self.ids[row])

    def brief(self, row: int) -> str:
        """A row in a few words."""
        if self.texts is None:
            return self.name(row)
        return f"“{printable(shorten(self.texts[row], SHORT_TEXT))}”"

    def content(self, row: int) -> dict[str, Any]:
        """A row as plain data, for programs."""
        found: dict[str, Any] = {"row": row} if self.ids is None else {"row": row, "id": self.ids[row]}
        if self.texts is not None:
            return {**found, "text": self.texts[row]}
        if self.pictures is not None:
            return {**found, "image": self.pictures[row]}
        if self.records is not None:
            return {**found, "values": {n: str(self.records[n][row]) for n in self.records.column_names}}
        values = [float(value) for value in self.dense([row])[0]]
        named = values if self.columns is None else dict(zip(self.columns, values, strict=True))
        return {**found, "values": named}

    def fields(self, rows: Sequence[int]) -> list[tuple[str, list[str]]]:
        """Columns of some rows as texts, those in which the rows differ first."""
        assert self.records is not None
        part = self.records.take(np.asarray(rows, dtype=np.int64))
        found = [(n, ["" if v is None else str(v) for v in part[n].to_pylist()]) for n in part.column_names]
        return sorted(found, key=lambda field: len(set(field[1])) == 1)

    def dense(self, rows: Sequence[int]) -> NDArray[np.float64]:
        """Some rows as a dense array."""
        some = self.table[np.asarray(rows, dtype=np.int64)]
        return np.asarray(some.toarray() if sparse.issparse(some) else some, dtype=np.float64)

    def spread(self) -> NDArray[np.float64]:
        """How far the values of each column spread, from a sample of the rows."""
        places = np.unique(np.linspace(0, self.table.shape[0] - 1, _SAMPLE_ROWS).astype(np.int64))
        found: NDArray[np.float64] = self.dense(places.tolist()).std(axis=0)
        return found


def read_items(
    data: Source, choice: ColumnChoice, *, id_column: str | None, terminal: Terminal
) -> tuple[Table, Items, TableEncoder | None]:
    """The features of a file, checked, what is shown of its rows, and what encoded them, if anything did."""
    raw, encoder = read_raw(data, choice, id_column=id_column)
    if raw.n_rows < 2:
        raise InvalidDataError(
            f"{data} has {raw.n_rows} row(s); there is nothing to ask about fewer than two."
        )
    ids = as_texts(raw.ids, raw.n_rows, what="ids")
    if encoder is None:
        array = check_table(SpherePair(), raw.X, reset=True)
        return raw, Items(array, raw.names, ids, image_shape=find_image_shape(array)), None
    table = encode(raw, encoder, terminal)
    named = {kind: encoder.used_columns(kind) for kind in ("text", "image")} if choice.only_named else {}
    named = {"image": encoder.used_columns("image")} if is_picture_folder(data) else named
    texts, pictures = (
        as_texts(raw.X[named[kind][0]], raw.n_rows, what=kind) if named.get(kind) else None
        for kind in ("text", "image")
    )
    items = Items(table.X, table.names, ids, texts=texts, pictures=pictures, records=raw.X)
    return table, items, encoder


@dataclass(frozen=True)
class Card:
    """A question as it is shown: a sentence, and rows under the keys that stand for them.

    The first row of a choice is the item, of a group card the known member.
    """

    sentence: str
    rows: tuple[tuple[str, int], ...]
    keys: str

    def row_of(self, key: str) -> int | None:
        """The row under a key."""
        return dict(self.rows).get(key)


def card_of(question: Question, position: Callable[[int], Any]) -> Card:
    """The card of a question; exemplars stand in the order of ``position``, which hides the model's guess."""
    if isinstance(question, ChoiceQuestion):
        known = sorted(question.exemplars, key=position)
        rows = [("item", question.item), *((str(place), row) for place, row in enumerate(known, start=1))]
        if len(known) == 1:
            return Card("Do they belong together?", tuple(rows), "1 yes, 0 no")
        keys = f"1 to {len(known)} that one, 0 none of them"
        return Card("Which of these does the item belong with?", tuple(rows), keys)
    if isinstance(question, GroupQuestion):
        others = ((str(place), row) for place, row in enumerate(question.items[1:], start=1))
        rows = [("group", question.items[0]), *others]
        keys = "type the numbers that do not belong, then Enter; only Enter: all belong"
        return Card("Which of these do not belong with the first?", tuple(rows), keys)
    return Card(
        "Do they belong together?", (("a", question.left), ("b", question.right)), "s same, d different"
    )


class CardView:
    """Draws cards for a terminal, and writes the page where there are pictures.

    Parameters
    ----------
    items : Items
    page : Path
        Where the page goes.
    in_color : bool
        Whether the terminal has colors.
    """

    def __init__(self, items: Items, page: Path, *, in_color: bool) -> None:
        self.items, self.page, self._in_color = items, page, in_color
        is_plain = items.texts is None and not items.has_images and items.records is None
        self._spread = items.spread() if is_plain else np.empty(0)

    def card(self, card: Card) -> RenderableType:
        """The rows of a card."""
        if self.items.has_images:
            self.write_page(card.sentence, card.rows)
        return self._rows(card.rows)

    def groups(self, groups: Sequence[Sequence[int]]) -> RenderableType:
        """Some members of each group."""
        parts: list[RenderableType] = []
        for number, members in enumerate(groups, start=1):
            title = f"group {number}: {len(members)} row{'s' * (len(members) > 1)}"
            shown = [(self.items.name(row), row) for row in members[:5]]
            parts.append(
                Group(Text(title, style="bold"), Padding(self._rows(shown, names=False), (0, 0, 1, 2)))
            )
        if self.items.has_images:
            rows = [(f"group {n}", row) for n, members in enumerate(groups, start=1) for row in members[:5]]
            self.write_page("Groups found so far", rows)
        return Group(*parts) if parts else Text("no group is known yet")

    def write_page(self, title: str, rows: Sequence[tuple[str, int]]) -> None:
        """The rows as pictures on the local page."""
        rendering = "auto" if self.items.pictures is not None else "pixelated"
        figures = "".join(self._figure(key, row, is_first=not place) for place, (key, row) in enumerate(rows))
        text = _PAGE.format(rendering=rendering, title=html.escape(title), figures=figures)
        atomic_write_text(self.page, text)

    def _figure(self, key: str, row: int, *, is_first: bool) -> str:
        source = html.escape(self._source(row), quote=True)
        caption = html.escape(f"{key} · {self.items.name(row)}")
        kind = ' class="first"' if is_first else ""
        return (
            f'<figure{kind}><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>\n'
        )

    def _source(self, row: int) -> str:
        if self.items.pictures is not None:
            return Path(self.items.pictures[row]).absolute().as_uri()
        return png_uri(self._pixels(row))

    def _pixels(self, row: int) -> NDArray[np.uint8]:
        assert self.items.image_shape is not None
        pixels: NDArray[np.uint8] = self.items.image_shape.pixels(self.items.dense([row]))[0]
        return pixels

    def _rows(self, rows: Sequence[tuple[str, int]], *, names: bool = True) -> RenderableType:
        if self.items.texts is not None:
            return self._texts(rows)
        if self.items.pictures is not None:
            return _listed([(key, printable(self.items.pictures[row])) for key, row in rows])
        if self.items.image_shape is None:
            return self._values(rows)
        if max(self.items.image_shape.height, self.items.image_shape.width) > LARGEST_DRAWN_SIDE:
            return _listed([(key, self.items.name(row)) for key, row in rows])
        drawn = [self._picture(key if names else "", row) for key, row in rows]
        return Columns(drawn, padding=(0, 1))

    def _texts(self, rows: Sequence[tuple[str, int]]) -> RenderableType:
        assert self.items.texts is not None
        return _listed([(key, printable(shorten(self.items.texts[row], LONGEST_TEXT))) for key, row in rows])

    def _values(self, rows: Sequence[tuple[str, int]]) -> RenderableType:
        """Columns that differ most between the rows first."""
        if self.items.records is not None:
            return self._fields(rows)
        values = self.items.dense([row for _, row in rows])
        range_ = np.ptp(values, axis=0) / np.maximum(self._spread, 1e-12)
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("")
        for key, row in rows:
            name = "" if self.items.ids is None else f"\n{self.items.name(row)}"
            table.add_column(Text(f"{key}{name}"), justify="right", style="bold" if key == rows[0][0] else "")
        for column in np.argsort(-range_, kind="stable")[:MOST_LINES]:
            name = f"column {column}" if self.items.columns is None else self.items.columns[column]
            table.add_row(Text(name), *(format_number(value) for value in values[:, column]))
        left_out = values.shape[1] - MOST_LINES
        note = Text(f"and {left_out} columns that differ less" if left_out > 0 else "", style="dim")
        return Group(table, note)

    def _fields(self, rows: Sequence[tuple[str, int]]) -> RenderableType:
        """The columns of a mixed table."""
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("", *(key for key, _ in rows)):
            table.add_column(Text(heading))
        for name, values in self.items.fields([row for _, row in rows])[:MOST_LINES]:
            table.add_row(Text(name), *(Text(printable(shorten(value, SHORT_TEXT))) for value in values))
        return table

    def _picture(self, key: str, row: int) -> RenderableType:
        gray = self._pixels(row).mean(axis=2)
        drawn = draw_in_color(gray) if self._in_color else draw_in_shades(gray)
        style = "bold blue" if key in ("item", "group") else "dim"
        return Panel(drawn, title=Text(key), box=box.ROUNDED, expand=False, padding=0, border_style=style)


def draw_in_color(gray: NDArray[np.floating]) -> Text:
    """Half blocks, two pixels above each other in each; a small image twice as large."""
    if max(gray.shape) <= SMALL_SIDE:
        gray = np.kron(gray, np.ones((2, 2)))
    gray = np.pad(gray, ((0, len(gray) % 2), (0, 0))).astype(int)
    text = Text()
    for upper, lower in zip(gray[::2], gray[1::2], strict=True):
        for up, low in zip(upper.tolist(), lower.tolist(), strict=True):
            text.append("▀", style=f"rgb({up},{up},{up}) on rgb({low},{low},{low})")
        text.append("\n")
    text.right_crop(1)
    return text


def draw_in_shades(gray: NDArray[np.floating]) -> Text:
    """Two characters a pixel, for terminals without colors.

    Examples
    --------
    >>> print(draw_in_shades(np.array([[0.0, 255.0], [128.0, 255.0]])))
      ██
    ▒▒██
    """
    level = (gray / 256 * len(_SHADES)).astype(int)
    return Text("\n".join("".join(2 * _SHADES[shade] for shade in line) for line in level))


def printable(text: str) -> str:
    r"""The text without characters that would steer the terminal.

    Examples
    --------
    >>> printable("\x1b[2Jhello")
    '�[2Jhello'
    """
    return "".join(mark if mark.isprintable() else "�" for mark in text)


def _listed(lines: Sequence[tuple[str, str]]) -> RenderableType:
    """Texts beside their keys; the first is set apart."""
    table = RichTable.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold cyan", no_wrap=True)
    table.add_column()
    for place, (key, text) in enumerate(lines):
        table.add_row(Text(key), Text(text, style="" if place else "bold"))
        if not place and key in ("item", "group"):
            table.add_row("", "")
    return table


def read_known(
    constraints: Path | None, again: Path | None, table: Table
) -> tuple[Constraints | None, list[Question]]:
    """What is known before, and what to ask first; what is asked again is not known any more."""
    where: dict[str, Any] = {"ids": table.ids, "n_rows": table.n_rows}
    known = None if constraints is None else Constraints.read(constraints, **where)
    if again is None:
        return known, []
    left, right = read_questions(again, **where)
    asked = [Constraints.from_arrays(left, right, np.full(len(left), link)) for link in (True, False)]
    known = None if known is None else known - asked[0] - asked[1]
    return known, [PairQuestion(*ends) for ends in zip(left.tolist(), right.tolist(), strict=True)]

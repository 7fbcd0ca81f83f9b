"""Must-links and cannot-links: the pairs (a_i, b_i, y_i) of the paper's problem statement."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spherepair.constraints import sampling
from spherepair.constraints.array_inputs import (
    as_details,
    as_ends,
    as_links,
    as_pairs,
    as_source_row,
    as_weight,
    locate_position,
)
from spherepair.constraints.closure import ConstraintSummary, LinkedPairs
from spherepair.constraints.conflicts import Conflict, ConflictReport
from spherepair.constraints.graph import Components
from spherepair.constraints.labels_and_answers import is_record, read_labels, read_record
from spherepair.constraints.pair_arrays import (
    Pair,
    check_pairs,
    check_range,
    locate_in,
    without_duplicates,
)
from spherepair.constraints.pairs_file import (
    holds_labels,
    open_annotations,
    read_pairs,
    write_pairs,
)
from spherepair.constraints.row_ids import look_up
from spherepair.constraints.sampling import RandomState
from spherepair.constraints.splitting import PairFold, RowPairs
from spherepair.files.columns import JSON_LINES_SUFFIXES

__all__ = [
    "Components",
    "Conflict",
    "ConflictReport",
    "ConstraintSummary",
    "Constraints",
    "Pair",
    "PairFold",
    "RowPairs",
]


class Constraints(LinkedPairs):
    """Pairs of rows that belong together (must-link) or do not (cannot-link).

    Use :meth:`from_pairs`, :meth:`from_arrays`, :meth:`from_labels`, :meth:`from_groups` or
    :meth:`read`, which check their input; the constructor does not. Constraints are immutable:
    every method returns new ones.

    A pair given twice with the same link by one person (or by nobody known) is stored once, as it was first
    given but with its largest weight; ``n_duplicates`` counts the rest. Two people who agree are two answers.
    A pair given with both links is stored with both: a conflict, which :meth:`conflicts` reports.

    Slices, masks and index arrays select pairs. ``|``, ``&`` and ``-`` are union, intersection and
    difference. ``==`` compares pairs, links, weights, persons, times and values in any order.

    Attributes
    ----------
    left, right : int64 array of shape (n_pairs,)
        Row numbers of the two ends.
    is_must_link : bool array of shape (n_pairs,)
        True for a must-link, False for a cannot-link (y_i of the paper).
    weight : float32 array of shape (n_pairs,)
        Weight of each pair; 1 by default.
    source_row : int64 array of shape (n_pairs,)
        Row of the file or position in the list that each pair comes from; -1 if neither.
    by : array of str of shape (n_pairs,)
        Who answered; empty text where it is unknown.
    time : array of str of shape (n_pairs,)
        When, as ISO 8601 text; empty text where it is unknown.
    value : float64 array of shape (n_pairs,)
        How sure the answer is, from 0 (surely different) to 1 (surely the same). By default 1 for
        must-links and 0 for cannot-links.
    n_duplicates : int
        How many repeated pairs were left out.
    n_rows : int or None
        Number of rows of the table that the pairs are about, where it is known.

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 4)], cannot_link=[(0, 9), (3, 7)])
    >>> pairs
    Constraints(3 pairs: 1 must-link, 2 cannot-link)
    >>> pairs.closure().cannot_links.right
    array([9, 7, 9])
    >>> Constraints.from_pairs(must_link=[(0, 4)], cannot_link=[(0, 9)], by=["ann", "bob"])
    Constraints(2 pairs: 1 must-link, 1 cannot-link; by 2 people)
    """

    @classmethod
    def from_pairs(
        cls,
        must_link: Any = (),
        cannot_link: Any = (),
        *,
        must_link_weight: npt.ArrayLike | None = None,
        cannot_link_weight: npt.ArrayLike | None = None,
        by: Any = None,
        time: Any = None,
        value: npt.ArrayLike | None = None,
        ids: Any = None,
        n_rows: int | None = None,
    ) -> Constraints:
        """Pairs from lists of tuples or arrays of shape (n_pairs, 2).

        Parameters
        ----------
        must_link, cannot_link : sequence of pairs of row numbers
            The pairs; ``source_row`` counts the must-links first, then the cannot-links.
        must_link_weight, cannot_link_weight : float or array of shape (n_pairs,), optional
            Weights, finite and not negative; 1 by default.
        by, time : str or sequence of str of shape (n_pairs,), optional
            Who gave the pairs, and when (ISO 8601); the must-links first, then the cannot-links.
        value : array of shape (n_pairs,), optional
            How sure the answers are, in the same order: 0.5 to 1 for must-links, 0 to 0.5 for cannot-links.
        ids : sequence of shape (n_rows,), optional
            ID of each row, such as the index of a frame, if the pairs name rows by ID.
        n_rows : int, optional
            Number of rows there are; row numbers beyond it are refused.
        """
        if ids is not None:
            (must_link, cannot_link), n_rows = look_up(ids, must_link=must_link, cannot_link=cannot_link)
        must, cannot = as_pairs(must_link, "must_link"), as_pairs(cannot_link, "cannot_link")

        def locate(index: int) -> str:
            place = index - len(must)
            return f"must_link[{index}]" if place < 0 else f"cannot_link[{place}]"

        def locate_cannot(index: int) -> str:
            return f"cannot_link[{index}]"

        left, right = np.concatenate([must, cannot]).T
        check_pairs(left, right, locate=locate, n_rows=n_rows)
        weights = (
            as_weight(must_link_weight, len(must), name="must_link_weight", locate=locate),
            as_weight(cannot_link_weight, len(cannot), name="cannot_link_weight", locate=locate_cannot),
        )
        order = np.arange(len(left))
        links = order < len(must)
        details = as_details(by, time, value, links, locate=locate)
        weight = np.concatenate(weights)
        return without_duplicates(cls(left, right, links, weight, order, details=details, n_rows=n_rows))

    @classmethod
    def from_arrays(
        cls,
        left: npt.ArrayLike,
        right: npt.ArrayLike,
        is_must_link: npt.ArrayLike,
        *,
        weight: npt.ArrayLike | None = None,
        source_row: npt.ArrayLike | None = None,
        by: Any = None,
        time: Any = None,
        value: npt.ArrayLike | None = None,
        ids: Any = None,
        n_rows: int | None = None,
    ) -> Constraints:
        """Pairs from arrays of shape (n_pairs,), as the attributes of the same names.

        One text for `by` or `time` stands for all pairs. Row numbers from `n_rows` on are refused; with
        `ids`, one for each row, `left` and `right` hold IDs.

        Examples
        --------
        >>> Constraints.from_arrays([0, 1], [2, 3], [True, False])
        Constraints(2 pairs: 1 must-link, 1 cannot-link)
        >>> Constraints.from_arrays([0, 1], [2, 3], [True, False], value=[0.8, 0]).value
        array([0.8, 0. ])
        """
        if ids is not None:
            (left, right), n_rows = look_up(ids, left=left, right=right)
        ends = as_ends(left, right)
        n_pairs = len(ends[0])
        check_pairs(*ends, locate=locate_position, n_rows=n_rows)
        links = as_links(is_must_link, n_pairs)
        weights = as_weight(weight, n_pairs, name="weight", locate=locate_position)
        details = as_details(by, time, value, links, locate=locate_position)
        origin = as_source_row(source_row, n_pairs)
        return without_duplicates(cls(*ends, links, weights, origin, details=details, n_rows=n_rows))

    @classmethod
    def from_labels(cls, y: Any, n_pairs: int, *, random_state: RandomState = None) -> Constraints:
        """Random pairs as in the paper: uniform over all pairs of different rows, without repetition.

        Two rows with the same label are must-linked, others cannot-linked. With the same
        `random_state`, a smaller set is the beginning of a larger one. If fewer pairs exist than
        are asked for, all are returned with a ``ConstraintWarning``.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Label of every row, of any type; none may be missing.
        n_pairs : int
            Number of pairs.
        random_state : int, Generator, RandomState or None
            Seed or source of random numbers.

        Examples
        --------
        >>> pairs = Constraints.from_labels(["a", "b", "a", "b"], 3, random_state=0)
        >>> pairs == Constraints.from_labels(["a", "b", "a", "b"], 5, random_state=0)[:3]
        True
        """
        return sampling.random_pairs(cls, y, n_pairs, random_state)

    @classmethod
    def from_groups(
        cls, groups: Any, *, n_pairs: int | None = None, random_state: RandomState = None
    ) -> Constraints:
        """Pairs from the labels of some rows.

        All pairs of labeled rows would be quadratic. Unless `n_pairs` is given, a linear number of
        pairs with the same closure is drawn: the must-links of a group form a ring in random order;
        each row has a cannot-link to a random row of another group; and each two groups have one
        more between random members. Of the latter at most ten per labeled row are drawn, with a
        ``ConstraintWarning``.

        Parameters
        ----------
        groups : array-like of shape (n_rows,)
            Label of each row; None, NaN or -1 where it is unknown.
        n_pairs : int, optional
            Draw this many random pairs of labeled rows instead, as :meth:`from_labels` does.
        random_state : int, Generator, RandomState or None
            Seed or source of random numbers.

        Examples
        --------
        >>> pairs = Constraints.from_groups(["a", "a", None, "b"], random_state=0)
        >>> pairs.must_links, sorted({*pairs.left.tolist(), *pairs.right.tolist()})
        (Constraints(1 pairs: 1 must-link, 0 cannot-link), [0, 1, 3])
        """
        return sampling.group_pairs(cls, groups, n_pairs, random_state)

    @classmethod
    def imbalanced(
        cls, y: Any, n_pairs: int, *, cluster: Any = None, random_state: RandomState = None
    ) -> tuple[Constraints, Constraints, Constraints]:
        """The paper's sets IMB0, IMB1 and IMB2, of n, 5 n and 10 n pairs, each within the next.

        The first is :meth:`from_labels`. The others add cannot-links between a random row of
        `cluster` (by default the first label in sorted order) and a random row of any other
        cluster. If too few exist, all are returned with a ``ConstraintWarning``.

        Examples
        --------
        >>> sets = Constraints.imbalanced([0, 1, 2] * 10, 20, random_state=0)
        >>> [len(pairs) for pairs in sets]
        [20, 100, 200]
        """
        first, second, third = sampling.imbalanced_pairs(
            cls, y, n_pairs, cluster=cluster, random_state=random_state
        )
        return first, second, third

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, ids: Any = None, n_rows: int | None = None) -> Constraints:
        r"""Read pairs, labels of some rows, or the record of an interview.

        Parameters
        ----------
        path : path
            The file; its ending (.csv, .csv.gz, .parquet, .pq, .jsonl, .jsonl.gz, .ndjson) decides
            how it is read.
        ids : sequence of shape (n_rows,), optional
            ID of each row, if the file names rows by ID; without it the file holds row numbers.
        n_rows : int, optional
            Number of rows there are; row numbers beyond it are refused.

        Notes
        -----
        *Pairs* have the columns ``left,right,link`` and perhaps ``weight``, ``by`` (or ``who``,
        ``annotator``), ``time`` and ``value``. A must-link is written must-link, must, ml, same, 1, true
        or yes; a cannot-link is written cannot-link, cannot, cl, different, 0, -1, false or no, in upper
        or lower case. Pairs whose link is blank or skip are left out and counted in a
        ``ConstraintWarning``. A blank weight means 1; a blank value means 1 for a must-link and 0 for a
        cannot-link.

        *Labels* have the columns ``row,label`` or ``id,label``: any file with a column ``label`` and
        none called ``left``. They become the pairs of :meth:`from_groups` with ``random_state=0``; a blank
        label or -1 is unknown. Of more than 200,000 pairs as many are drawn, so that every labeled row
        is in one of them, with a ``ConstraintWarning``.

        *A record* of an interview gives the pairs of all answers that were not taken back. It holds row
        numbers, also where `ids` are given.

        Other columns are named in a ``ConstraintWarning``. ``source_row`` counts lines as a text editor
        does: the header of a csv file is row 1.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "labels.csv")
        ...     _ = path.write_text("id,label\nann,cat\nbob,\ncem,cat\n")
        ...     Constraints.read(path, ids=["ann", "bob", "cem"])
        Constraints(1 pairs: 1 must-link, 0 cannot-link)
        """
        path, n_known = Path(path), n_rows if ids is None else len(ids)
        if path.name.lower().endswith(JSON_LINES_SUFFIXES) and is_record(path):
            found = read_record(cls, path, n_rows=n_known)
        else:
            file = open_annotations(path)
            found = (read_labels if holds_labels(file) else read_pairs)(cls, file, ids=ids, n_rows=n_rows)
        return without_duplicates(replace(found, n_rows=n_known))

    def write(self, path: str | os.PathLike[str], *, ids: Any = None) -> None:
        """Write the pairs to a file that :meth:`read` reads back exactly.

        Persons, times and values are written where any are known.

        Parameters
        ----------
        path : path
            The file; its ending decides the format. It is written whole or not at all.
        ids : sequence of shape (n_rows,), optional
            ID of each row, to be written instead of row numbers.

        Examples
        --------
        >>> import tempfile
        >>> pairs = Constraints.from_pairs(must_link=[(0, 2)], cannot_link=[(0, 1)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pairs.write(f"{folder}/pairs.csv", ids=["ann", "bob", "cem"])
        ...     Constraints.read(f"{folder}/pairs.csv", ids=["cem", "bob", "ann"])[0]
        Pair(left=2, right=0, is_must_link=True, weight=1.0)
        """
        write_pairs(self, path, ids=ids)

    def __repr__(self) -> str:
        n_must_link = int(self.is_must_link.sum())
        text = f"{len(self)} pairs: {n_must_link} must-link, {len(self) - n_must_link} cannot-link"
        n_people = len(set(self.by.tolist()) - {""}) if self.details.by is not None else 0
        if n_people:
            text += f"; by {n_people} {'person' if n_people == 1 else 'people'}"
        if self.details.value is not None:
            text += f"; {np.count_nonzero(self.value != self.is_must_link)} unsure"
        return f"Constraints({text})"

    @property
    def must_links(self) -> Constraints:
        """Only the must-links."""
        return self[self.is_must_link]

    @property
    def cannot_links(self) -> Constraints:
        """Only the cannot-links."""
        return self[~self.is_must_link]

    def validate(self, n_rows: int) -> None:
        """Raise ``InvalidConstraintsError`` if a pair names a row beyond the first `n_rows`."""
        check_range(self.left, self.right, locate=locate_in(self), n_rows=n_rows)

    def for_rows(self, n_rows: int) -> RowPairs[Constraints]:
        """These pairs beside the rows of a table, for scikit-learn's cross-validation to divide with them."""
        return RowPairs(self, n_rows)

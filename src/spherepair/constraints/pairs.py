"""Must-links and cannot-links: the pairs (a_i, b_i, y_i) of the paper's problem statement."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from spherepair.constraints import checks, files, generate
from spherepair.constraints.closure import entailed_pairs
from spherepair.constraints.conflicts import ConflictReport
from spherepair.constraints.graph import Components, build_graph, is_contradictory
from spherepair.constraints.sampling import RandomState
from spherepair.constraints.summary import ConstraintSummary, summarise
from spherepair.constraints.table import PairTable, concatenate, without_duplicates


class Constraints(PairTable):
    """Pairs of rows that belong together (must-link) or do not (cannot-link).

    Make them with :meth:`from_pairs`, :meth:`from_arrays`, :meth:`from_labels`,
    :meth:`from_groups` or :meth:`read`, which check what they are given; the constructor itself
    trusts its arrays. Constraints never change: every method returns new ones.

    A pair given twice with the same link is kept once, at its first place and with the largest of
    its weights; ``n_duplicates`` counts the rest. A pair given with both links is kept both ways:
    that is a conflict, which :meth:`conflicts` reports.

    Slices, masks and index arrays select pairs; ``|``, ``&`` and ``-`` unite, intersect and
    subtract; ``==`` compares sets of pairs with their links and weights, in any order.

    Attributes
    ----------
    left, right : int64 array of shape (n_pairs,)
        Row numbers of the two ends.
    is_must_link : bool array of shape (n_pairs,)
        True for a must-link, False for a cannot-link (y_i of the paper).
    weight : float32 array of shape (n_pairs,)
        Weight of each pair, one unless given.
    source_row : int64 array of shape (n_pairs,)
        Row of the file, or position in the list, where each pair was given; -1 if nowhere.
    n_duplicates : int
        How many repeated pairs were left out.

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 4)], cannot_link=[(0, 9), (3, 7)])
    >>> pairs
    Constraints(3 pairs: 1 must-link, 2 cannot-link)
    >>> pairs.closure().cannot_links.right
    array([9, 7, 9])
    """

    @classmethod
    def from_pairs(
        cls,
        must_link: Any = (),
        cannot_link: Any = (),
        *,
        must_link_weight: npt.ArrayLike | None = None,
        cannot_link_weight: npt.ArrayLike | None = None,
        n_rows: int | None = None,
    ) -> Constraints:
        """Pairs from lists of tuples or arrays of shape (n_pairs, 2).

        Parameters
        ----------
        must_link, cannot_link : sequence of pairs of row numbers
            The pairs; ``source_row`` counts the must-links first, then the cannot-links.
        must_link_weight, cannot_link_weight : float or array of shape (n_pairs,), optional
            Weights, finite and not negative; one if not given.
        n_rows : int, optional
            Number of rows there are; row numbers beyond it are refused.
        """
        must = _part(must_link, "must_link", must_link_weight, n_rows=n_rows)
        cannot = _part(cannot_link, "cannot_link", cannot_link_weight, n_rows=n_rows, first=len(must))
        return cls._of(without_duplicates(concatenate(must, cannot)))

    @classmethod
    def from_arrays(
        cls,
        left: npt.ArrayLike,
        right: npt.ArrayLike,
        is_must_link: npt.ArrayLike,
        *,
        weight: npt.ArrayLike | None = None,
        source_row: npt.ArrayLike | None = None,
        n_rows: int | None = None,
    ) -> Constraints:
        """Pairs from arrays of shape (n_pairs,), as the attributes of the same names.

        Examples
        --------
        >>> Constraints.from_arrays([0, 1], [2, 3], [True, False])
        Constraints(2 pairs: 1 must-link, 1 cannot-link)
        """
        ends = checks.as_ends(left, right)
        n_pairs = len(ends[0])
        checks.check_pairs(*ends, locate=checks.locate_position, n_rows=n_rows)
        links = checks.as_links(is_must_link, n_pairs)
        weights = checks.as_weight(weight, n_pairs, name="weight", locate=checks.locate_position)
        rows = checks.as_source_row(source_row, n_pairs)
        return cls._of(without_duplicates(PairTable(*ends, links, weights, rows)))

    @classmethod
    def from_labels(cls, y: Any, n_pairs: int, *, random_state: RandomState = None) -> Constraints:
        """Random pairs as in the paper: uniform over all pairs of different rows, none twice.

        Rows of one label are must-linked, others cannot-linked; no noise, no closure. With the
        same `random_state` a smaller set is the beginning of a larger one. If fewer pairs exist
        than are asked for, all of them are given, with a ``ConstraintWarning``.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The label of every row, of any kind; none may be missing.
        n_pairs : int
            How many pairs.
        random_state : int, Generator, RandomState or None
            Seed or source of random numbers.

        Examples
        --------
        >>> pairs = Constraints.from_labels(["a", "b", "a", "b"], 3, random_state=0)
        >>> pairs == Constraints.from_labels(["a", "b", "a", "b"], 5, random_state=0)[:3]
        True
        """
        return cls._of(generate.random_pairs(y, n_pairs, random_state))

    @classmethod
    def from_groups(
        cls, groups: Any, *, n_pairs: int | None = None, random_state: RandomState = None
    ) -> Constraints:
        """Pairs that say what partial labels say.

        All pairs of labelled rows would be quadratic. Unless `n_pairs` is given, these few say the
        same once closed, and touch every labelled row from both sides: each group is a ring of
        must-links in random order; each row has a cannot-link to one random row of another group;
        and each two groups have one more between random members. If pairs of groups outnumber ten
        times the labelled rows, only so many of them are drawn, with a ``ConstraintWarning``.

        Parameters
        ----------
        groups : array-like of shape (n_rows,)
            Label of each row; None, NaN or -1 where it is not known.
        n_pairs : int, optional
            Draw so many random pairs of labelled rows instead, as :meth:`from_labels` does.
        random_state : int, Generator, RandomState or None
            Seed or source of random numbers.

        Examples
        --------
        >>> pairs = Constraints.from_groups(["a", "a", None, "b"], random_state=0)
        >>> pairs.must_links, sorted({*pairs.left.tolist(), *pairs.right.tolist()})
        (Constraints(1 pairs: 1 must-link, 0 cannot-link), [0, 1, 3])
        """
        return cls._of(generate.group_pairs(groups, n_pairs, random_state))

    @classmethod
    def imbalanced(
        cls, y: Any, n_pairs: int, *, cluster: Any = None, random_state: RandomState = None
    ) -> tuple[Constraints, Constraints, Constraints]:
        """The paper's sets IMB0, IMB1 and IMB2, of n, 5 n and 10 n pairs, each within the next.

        The first is :meth:`from_labels`; what the others add are different cannot-links of a
        random row of `cluster` (the first label in sorted order, unless given) with a random row
        of any other. If too few exist, all are given, with a ``ConstraintWarning``.
        """
        first, second, third = generate.imbalanced_pairs(
            y, n_pairs, cluster=cluster, random_state=random_state
        )
        return cls._of(first), cls._of(second), cls._of(third)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, ids: Any = None, n_rows: int | None = None) -> Constraints:
        """Read a csv, parquet or json lines file with columns ``left,right,link[,weight]``.

        Parameters
        ----------
        path : path
            The file; its ending (.csv, .csv.gz, .parquet, .pq, .jsonl, .jsonl.gz, .ndjson) says
            what it is.
        ids : sequence of shape (n_rows,), optional
            The id of each row, if ``left`` and ``right`` hold ids; else they hold row numbers.
        n_rows : int, optional
            Number of rows there are; row numbers beyond it are refused.

        Notes
        -----
        A link is must-link, must, ml, same, 1, true or yes, or else cannot-link, cannot, cl,
        different, 0, -1, false or no, in any case. A blank weight means one. Further columns are
        ignored. ``source_row`` counts as a text editor does: the header of a csv file is row 1.
        """
        return cls._of(without_duplicates(files.read_pairs(path, ids=ids, n_rows=n_rows)))

    def write(self, path: str | os.PathLike[str], *, ids: Any = None) -> None:
        """Write the pairs to a file that :meth:`read` reads back exactly.

        Parameters
        ----------
        path : path
            The file; its ending says what it becomes. It appears whole or not at all.
        ids : sequence of shape (n_rows,), optional
            The id of each row, to be written instead of row numbers.
        """
        files.write_pairs(self, path, ids=ids)

    def __repr__(self) -> str:
        n_must_link = int(self.is_must_link.sum())
        n_cannot_link = len(self) - n_must_link
        return f"Constraints({len(self)} pairs: {n_must_link} must-link, {n_cannot_link} cannot-link)"

    @property
    def must_links(self) -> Constraints:
        """The must-links alone."""
        return self[self.is_must_link]

    @property
    def cannot_links(self) -> Constraints:
        """The cannot-links alone."""
        return self[~self.is_must_link]

    def validate(self, n_rows: int) -> None:
        """Refuse, with ``InvalidConstraintsError``, pairs beyond a table of `n_rows` rows."""
        checks.check_range(self.left, self.right, locate=checks.locate_in(self), n_rows=n_rows)

    def components(self) -> Components:
        """The rows mentioned, and what must-links hold together among them."""
        return build_graph(self).components

    def conflicts(self) -> ConflictReport:
        """The cannot-links that contradict must-links, each with the chain that proves it."""
        return ConflictReport(self, build_graph(self))

    def require_consistent(self) -> None:
        """Raise ``ConflictError`` if some pairs contradict each other."""
        report = self.conflicts()
        if report:
            raise report.to_error()

    def drop_conflicts(self) -> Constraints:
        """The pairs without every cannot-link that contradicts must-links.

        Must-links always stay, also where the same pair is given both ways: what remains is free
        of contradictions, and no must-link chain is torn by a single cannot-link.
        """
        return self[~is_contradictory(self, build_graph(self))]

    def closure(self, *, max_pairs: int = 10_000_000) -> Constraints:
        """All pairs that follow from these: first these, then what they entail.

        An entailed pair has ``source_row`` -1 and the weight of the lightest given pair among the
        must-links of its components and the cannot-links between them.

        Parameters
        ----------
        max_pairs : int
            Refuse, before making it, a closure of more pairs; its size can be quadratic.
        """
        graph = build_graph(self)
        report = ConflictReport(self, graph)
        if report:
            raise report.to_error()
        return concatenate(self, entailed_pairs(self, graph, max_pairs=max_pairs))

    def summary(self) -> ConstraintSummary:
        """Counts of the pairs, of the rows they cover and of what follows from them."""
        return summarise(self)

    @classmethod
    def _of(cls, table: PairTable) -> Constraints:
        return cls(
            table.left,
            table.right,
            table.is_must_link,
            table.weight,
            table.source_row,
            table.n_duplicates,
        )


def _part(pairs: Any, name: str, weight: Any, *, n_rows: int | None, first: int = 0) -> PairTable:
    def locate(index: int) -> str:
        return f"{name}[{index}]"

    left, right = checks.as_pairs(pairs, name)
    checks.check_pairs(left, right, locate=locate, n_rows=n_rows)
    weights = checks.as_weight(weight, len(left), name=f"{name}_weight", locate=locate)
    is_must_link = np.full(len(left), name == "must_link")
    return PairTable(left, right, is_must_link, weights, first + np.arange(len(left)))

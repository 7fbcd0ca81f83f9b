"""What the answers prove: rows that belong together, and groups that differ.

Must-links join rows to components (union-find); a cannot-link makes two components differ. Components
that differ from each other pairwise are *groups*: a lower bound on the number of clusters that no further
answer can lower.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spherepair.asking.questions import NONE, Answer, ChoiceQuestion, Link, PairQuestion
from spherepair.constraints.graph import greedy_clique


class Groups:
    """Components, their differences, and the largest set of groups found so far.

    A link that contradicts what is known changes nothing here; it is counted in ``contradictions``.

    Examples
    --------
    >>> groups = Groups()
    >>> groups.add([(0, 1, True), (1, 2, False), (2, 3, True)])
    >>> groups.relation(0, 3), groups.relation(0, 9), len(groups)
    (False, None, 2)
    """

    def __init__(self, links: Iterable[Link] = ()) -> None:
        self._parent: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._different: defaultdict[int, set[int]] = defaultdict(set)
        self._clique: list[int] | None = None
        self._placed: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self.contradictions: list[Link] = []
        self.add(links)

    def __len__(self) -> int:
        """How many groups are known to differ from each other."""
        return len(self.roots)

    def __contains__(self, row: int) -> bool:
        return row in self._parent

    @property
    def rows(self) -> list[int]:
        """All rows that some link names."""
        return list(self._parent)

    @property
    def n_components(self) -> int:
        """How many components the rows form."""
        return len(self._members)

    @property
    def roots(self) -> list[int]:
        """One row of each group, in the order in which the groups were found."""
        if self._clique is None:
            self._clique = self._find_clique()
        return self._clique

    def add(self, links: Iterable[Link]) -> None:
        """Take links in; must-links first, so that their order within one answer does not matter."""
        for left, right, is_same in sorted(links, key=lambda link: not link[2]):
            if self.relation(left, right) is (not is_same):
                self.contradictions.append((left, right, is_same))
            elif is_same:
                self._join(left, right)
            else:
                self._separate(left, right)
        self._clique = self._placed = None

    def add_in_order(self, links: Iterable[Link]) -> None:
        """Take links in one after the other, as they were said."""
        for link in links:
            self.add([link])

    def without_single_rows(self, *, but: Container[int] = ()) -> Groups:
        """The same without what is known of rows that no must-link joins to another, but for some."""
        single = {root for root, rows in self._members.items() if len(rows) == 1 and root not in but}
        kept = Groups(
            (root, row, True) for root, rows in self._members.items() for row in rows if row != root
        )
        kept.add(
            (root, other, False)
            for root, others in self._different.items()
            for other in others
            if not single.intersection((root, other))
        )
        return kept

    def root(self, row: int) -> int:
        """The row that stands for the component of ``row``; the row itself where no link names it."""
        parent = self._parent.get(row, row)
        while parent != (above := self._parent.get(parent, parent)):
            self._parent[row] = parent = above
        return parent

    def relation(self, left: int, right: int) -> bool | None:
        """Whether two rows are known to belong together (True), to differ (False), or neither (None)."""
        if left not in self._parent or right not in self._parent:
            return True if left == right else None
        first, second = self.root(left), self.root(right)
        if first == second:
            return True
        return False if second in self._different.get(first, ()) else None

    def members(self, row: int) -> list[int]:
        """Rows known to belong with ``row``."""
        return self._members[self.root(row)] if row in self._parent else [row]

    def differing(self, row: int) -> set[int]:
        """Roots of the components known to differ from that of ``row``."""
        return self._different.get(self.root(row), set())

    def group_of(self, row: int) -> int | None:
        """Number of the group of ``row``; ``None`` where it is in none yet."""
        if row not in self._parent:
            return None
        root = self.root(row)
        return self.roots.index(root) if root in self.roots else None

    def placed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows whose group is known, (m,), and the numbers of their groups, (m,)."""
        if self._placed is None:
            parts = [self._members[root] for root in self.roots]
            rows = np.array([row for part in parts for row in part], dtype=np.int64)
            self._placed = rows, np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return self._placed

    def components(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """All rows (m,), their components (m,), and which components differ (C, C)."""
        roots = list(self._members)
        number = {root: position for position, root in enumerate(roots)}
        rows = [(row, number[root]) for root in roots for row in self._members[root]]
        differ = np.zeros((len(roots), len(roots)), dtype=bool)
        for root, others in self._different.items():
            if root in number:
                differ[number[root], [number[other] for other in others]] = True
        table = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1], differ

    def _component(self, row: int) -> int:
        """The root of a row that is in some link from now on."""
        if row not in self._parent:
            self._parent[row], self._members[row] = row, [row]
        return self.root(row)

    def _join(self, left: int, right: int) -> None:
        kept, gone = self._component(left), self._component(right)
        if kept == gone:
            return
        if len(self._members[kept]) < len(self._members[gone]):
            kept, gone = gone, kept
        self._parent[gone] = kept
        self._members[kept] += self._members.pop(gone)
        for other in self._different.pop(gone, set()):
            self._different[other].discard(gone)
            self._different[other].add(kept)
            self._different[kept].add(other)

    def _separate(self, left: int, right: int) -> None:
        first, second = self._component(left), self._component(right)
        self._different[first].add(second)
        self._different[second].add(first)

    def _find_clique(self) -> list[int]:
        """Components that all differ from each other, oldest first; few answers make this a matter of ms."""
        roots = list(self._members)
        number = {root: position for position, root in enumerate(roots)}
        edges = [(number[root], number[other]) for root in roots for other in self._different.get(root, ())]
        ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        differ = csr_array((np.ones(ends.shape[1], np.int64), ends), shape=(len(roots), len(roots)))
        sizes = np.array([len(self._members[root]) for root in roots], dtype=np.int64)
        return [roots[position] for position in greedy_clique(differ, sizes).tolist()]


class Check(NamedTuple):
    """An answer to something that had been said before.

    Attributes
    ----------
    by : str
    agrees : bool
    is_own : bool
        Whether nobody else had said anything about these rows.
    """

    by: str
    agrees: bool
    is_own: bool


class Settled:
    """What stands of all that was said, and the groups that follow.

    The first statement holds until it is taken back, but for checks, which ask a second time. Where one of
    them contradicts what was said of its item, the check holds. Where one says that two groups are the same,
    they are joined if it was said as often as that they differ.

    Parameters
    ----------
    known : iterable of (left, right, is_same)
        What was known before the first answer.
    answers : iterable of Answer
    """

    def __init__(self, known: Iterable[Link], answers: Iterable[Answer] = ()) -> None:
        self._known = tuple(known)
        self.groups = Groups(self._known)
        self.stated: list[tuple[Link, Answer]] = []
        #: Answers to pairs of which nobody could tell.
        self.unsure: list[Answer] = []
        self.checks: list[Check] = []
        self._said_by: defaultdict[int, set[str]] = defaultdict(set)
        self._same: list[tuple[int, int]] = []
        for answer in answers:
            self.add(answer)

    @property
    def is_doubtful(self) -> bool:
        """Whether some answer is known to be wrong."""
        return bool(self.groups.contradictions) or not all(check.agrees for check in self.checks)

    @property
    def confirmed(self) -> set[int]:
        """Rows that a second look found to belong with none of the groups that are most like them."""
        looked_at = (answer for _, answer in self.stated if answer.question.is_check and answer.reply == NONE)
        return {row for answer in looked_at for row in answer.question.subjects}

    def add(self, answer: Answer) -> None:
        """Take an answer in."""
        links = answer.links
        if answer.is_unsure_pair:
            self.unsure.append(answer)
        is_check = answer.question.is_check and len(links) > 0
        is_contrary = is_check and any(self._contradicts(link) for link in links)
        others = {by for row in answer.question.subjects for by in self._said_by[row]} - {answer.by}
        if is_check:
            self.checks.append(Check(answer.by, agrees=not is_contrary, is_own=not others))
        for row in answer.question.subjects:
            self._said_by[row].add(answer.by)
        if is_contrary and isinstance(answer.question, PairQuestion):
            self._same.append(links[0][:2])
            if links[0][2] and not self._joins(*links[0][:2]):
                return  # said too seldom to count against what keeps the groups apart
        elif is_contrary:
            asked = set(answer.question.subjects)
            self._drop(lambda link, earlier: bool(asked.intersection(link[:2], earlier.question.subjects)))
        self.stated += [(link, answer) for link in links]
        self.groups.add(links)

    def support(self) -> Counter[frozenset[int]]:
        """How many answers say themselves that two groups differ, by the roots of the two.

        That another one was chosen is no such answer.
        """
        root = {row: self.groups.root(row) for row in self.groups.rows}
        told = {
            (answer.number, *sorted((root[left], root[right])))
            for (left, right, _), answer in self.stated
            if _is_direct(answer)
        }
        return Counter(frozenset(ends) for _, *ends in told)

    def _joins(self, left: int, right: int) -> bool:
        """Join two groups if they were called the same as often as different."""
        ends = self._ends(left, right)
        votes = sum(self._ends(*pair) == ends for pair in self._same)
        if votes < self.support()[ends]:
            return False
        crossing = {id(link) for link, _ in self.stated if self._ends(*link[:2]) == ends}
        self._drop(lambda link, _: id(link) in crossing)
        return True

    def _ends(self, left: int, right: int) -> frozenset[int]:
        return frozenset((self.groups.root(left), self.groups.root(right)))

    def _drop(self, is_gone: Callable[[Link, Answer], bool]) -> None:
        self.stated = [(link, answer) for link, answer in self.stated if not is_gone(link, answer)]
        self.groups = Groups(self._known)
        self.groups.add_in_order(link for link, _ in self.stated)

    def _contradicts(self, link: Link) -> bool:
        return self.groups.relation(link[0], link[1]) is (not link[2])


def _is_direct(answer: Answer) -> bool:
    """Whether an answer was about a difference, and not about which group a row belongs to."""
    return not isinstance(answer.question, ChoiceQuestion) or answer.reply == NONE


def shortest_proof(links: Iterable[Link], left: int, right: int, *, is_same: bool) -> list[Link]:
    """Links that lead from one row to the other; empty where there is no such chain.

    Rows belong together if must-links alone connect them, and differ if exactly one link on the way is a
    cannot-link.

    Parameters
    ----------
    links : iterable of (left, right, is_same)
    left, right : int
    is_same : bool
        Whether to prove that they belong together, or that they differ.

    Examples
    --------
    >>> shortest_proof([(0, 1, True), (2, 1, False), (2, 3, True)], 0, 3, is_same=False)
    [(0, 1, True), (2, 1, False), (2, 3, True)]
    """
    around: defaultdict[int, list[tuple[int, Link]]] = defaultdict(list)
    for link in links:
        around[link[0]].append((link[1], link))
        around[link[1]].append((link[0], link))
    start, goal = (left, False), (right, not is_same)
    came_from: dict[tuple[int, bool], tuple[tuple[int, bool], Link]] = {}
    waiting = deque([start])
    while waiting and goal not in came_from:
        row, has_crossed = place = waiting.popleft()
        for neighbor, link in around[row]:
            reached = (neighbor, has_crossed or not link[2])
            if (link[2] or not has_crossed) and reached != start and reached not in came_from:
                came_from[reached] = place, link
                waiting.append(reached)
    chain: list[Link] = []
    while goal in came_from:
        goal, link = came_from[goal]
        chain.append(link)
    return chain[::-1]


def chain_of_answers(
    answers: Sequence[Answer], known: Iterable[Link], link: Link
) -> list[tuple[Link, Answer | None]]:
    """The chain that proves the opposite of a link, and the answer that states each of its links.

    Parameters
    ----------
    answers : sequence of Answer
    known : iterable of (left, right, is_same)
        What was known before the first answer: no answer states it.
    link : (left, right, is_same)
        What the latest answer said.
    """
    said = {stated: answer for answer in reversed(answers) for stated in answer.links}
    chain = shortest_proof([*known, *said], link[0], link[1], is_same=not link[2])
    return [(step, said.get(step)) for step in chain]

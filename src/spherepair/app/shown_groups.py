"""The groups as the page shows them between two models, and the gestures that correct them.

What is shown is the latest version, corrected by the answers. A gesture states pairs. Where earlier answers
say the opposite, these answers are taken back and what else they said is stated again by the gesture, so
that nothing but the contradiction is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.app.versions import LISTED, NO_GROUP, Group, Placed, Version
from spherepair.app.versions.maps import Integers, match_groups
from spherepair.asking.groups import Groups, shortest_proof
from spherepair.asking.questions import Answer, Gesture, Link
from spherepair.errors import InvalidAnswerError, quoted

#: Weight of a row that was placed before the model was fitted, when a group of the version is identified.
ANCHOR_WEIGHT = 1000.0
#: Rows that one gesture may name.
MOST_ROWS = 500


@dataclass(frozen=True, eq=False)
class View:
    """A version with what the answers say since: what the page shows.

    Attributes
    ----------
    version : Version
    groups : tuple of Group
        Those of the version, then those that only answers know so far.
    placed : Placed
        Rows that people have placed.
    moves : ndarray
        Group that the rows of each group of the version are shown in: another one after a merger.
    """

    version: Version
    groups: tuple[Group, ...]
    placed: Placed
    moves: NDArray[np.uint16]

    @cached_property
    def labels(self) -> NDArray[np.uint16]:
        """Position of each row's group in ``groups``; ``NO_GROUP`` for none."""
        labels: NDArray[np.uint16] = self.moves[self.version.labels]
        labels[self.placed.rows] = self.placed.numbers.astype(np.uint16)
        return labels

    @cached_property
    def sizes(self) -> Integers:
        """Rows of each group."""
        return np.bincount(self.labels, minlength=NO_GROUP + 1)[: len(self.groups)]

    @cached_property
    def placed_sizes(self) -> Integers:
        """Rows of each group that people have placed."""
        return np.bincount(self.placed.numbers, minlength=len(self.groups))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {group.id: place for place, group in enumerate(self.groups)}

    @cached_property
    def _placed_groups(self) -> dict[int, int]:
        return dict(zip(self.placed.rows.tolist(), self.placed.numbers.tolist(), strict=True))

    def position(self, group: str) -> int | None:
        """Where a group stands in ``groups``."""
        return self._positions.get(group)

    def group_of(self, row: int) -> Group | None:
        """The group of a row."""
        place = self._placed_groups.get(row)
        if place is None:
            place = int(self.moves[self.version.labels[row]])
        return None if place == NO_GROUP else self.groups[place]

    def members(self, position: int) -> list[int]:
        """Rows that people have placed in a group."""
        rows: list[int] = self.placed.rows[self.placed.numbers == position].tolist()
        return rows


def view_of(version: Version, proved: Groups, order: Mapping[int, int]) -> View:
    """The groups of a version and those that answers have proved since.

    Parameters
    ----------
    version : Version
    proved : Groups
        What the answers prove.
    order : mapping of int to int
        When each row was first named. A group that no model knows is called after its first row, so that
        it keeps its name.
    """
    rows, numbers = proved.placed()
    n_clusters, n_proved = len(version.groups), len(proved.roots)
    told = np.full(len(rows), -1, dtype=np.int64)
    if n_clusters:
        told = version.labels[rows].astype(np.int64)
    weight = np.where(np.isin(rows, version.anchors), ANCHOR_WEIGHT, 1.0)
    cluster_of, shared = match_groups(
        told, numbers, n_before=max(n_clusters, 1), n_after=max(n_proved, 1), weight=weight
    )
    groups = list(version.groups)
    position = np.zeros(n_proved, dtype=np.int64)
    for number, root in enumerate(proved.roots):
        position[number] = cluster_of.get(number, len(groups))
        if number not in cluster_of:
            members = proved.members(root)
            first = min(members, key=lambda row: order.get(row, len(order)))
            groups.append(Group(f"r{first}", _next_number(groups), typical=tuple(members[:LISTED])))
    placed = Placed(rows, position[numbers], tuple(group.id for group in groups))
    unmatched = np.setdiff1d(np.arange(n_clusters), list(cluster_of.values()))
    return View(version, tuple(groups), placed, _moves(shared, position, unmatched))


def changes_since(before: Version, now: View) -> dict[str, int]:
    """How many rows are in another group than in an earlier version, and how many groups it did not know."""
    lookup = np.full(NO_GROUP + 1, NO_GROUP, dtype=np.uint16)
    is_known = np.zeros(NO_GROUP + 1, dtype=bool)
    is_known[: len(before.groups)] = True
    places = [now.position(group.id) for group in before.groups]
    lookup[: len(before.groups)] = [NO_GROUP if place is None else place for place in places]
    is_moved = is_known[before.labels] & (lookup[before.labels] != now.labels)
    old = {group.id for group in before.groups}
    is_new = [
        size > 0 and group.id not in old for group, size in zip(now.groups, now.sizes.tolist(), strict=True)
    ]
    return {"rows_moved": int(is_moved.sum()), "groups_new": sum(is_new)}


def _moves(shared: NDArray[Any], position: Integers, unmatched: Integers) -> NDArray[np.uint16]:
    """Rows of a cluster that is no group any more are shown in the group of most of its placed rows."""
    moves = np.arange(NO_GROUP + 1, dtype=np.uint16)
    if len(position) and len(unmatched):
        merged = unmatched[shared[unmatched].sum(axis=1) > 0]
        moves[merged] = position[shared[merged].argmax(axis=1)].astype(np.uint16)
    return moves


def _next_number(groups: Sequence[Group]) -> int:
    return max((group.number for group in groups), default=0) + 1


@dataclass(frozen=True)
class Plan:
    """What a gesture will write.

    Attributes
    ----------
    gesture : Gesture
    sentence : str
        What it does, for the person.
    stated : tuple of (left, right, is_same)
        The pairs that are new.
    takes_back : tuple of Answer
    """

    gesture: Gesture
    sentence: str
    stated: tuple[Link, ...]
    takes_back: tuple[Answer, ...]


def plan_gesture(
    view: View, answers: Sequence[Answer], body: dict[str, Any], *, name_of: Callable[[Group], str]
) -> Plan:
    """What a gesture of the page means.

    Parameters
    ----------
    view : View
    answers : sequence of Answer
        Those that stand.
    name_of : callable
        The name of a group.
    body : dict
        ``action`` is one of merge, separate, split, remove and move; the other entries are its groups and
        rows.
    """
    action = body.get("action")
    if action not in _ACTIONS:
        raise InvalidAnswerError(
            f"action must be one of {', '.join(_ACTIONS)}, got {quoted(str(action))} instead."
        )
    wanted, sentence = _ACTIONS[action](view, body, lambda place: f"“{name_of(view.groups[place])}”")
    links = tuple(dict.fromkeys(link for link in wanted if link[0] != link[1]))
    if not links:
        raise InvalidAnswerError("that changes nothing; nothing was written.")
    gone, kept = _replaced(answers, links)
    return Plan(Gesture(action, (*links, *kept)), sentence, links, gone)


Quote = Callable[[int], str]


def _merge(view: View, body: dict[str, Any], quote: Quote) -> tuple[list[Link], str]:
    groups = _groups(view, body.get("groups"))
    anchors = [_anchor(view, group) for group in groups]
    names = " and ".join(quote(group) for group in groups)
    return [(anchors[0], other, True) for other in anchors[1:]], f"{names} become one group."


def _separate(view: View, body: dict[str, Any], quote: Quote) -> tuple[list[Link], str]:
    groups = _groups(view, body.get("groups"))
    anchors = [_anchor(view, group) for group in groups]
    names = " and ".join(quote(group) for group in groups)
    return [
        (left, right, False) for left, right in combinations(anchors, 2)
    ], f"{names} are different groups."


def _split(view: View, body: dict[str, Any], quote: Quote) -> tuple[list[Link], str]:
    group, seeds = _group(view, body.get("group")), _rows(view, body.get("seeds"))
    if not 2 <= len(seeds) <= 20:
        raise InvalidAnswerError("choose two to twenty items, one for each part; nothing was written.")
    others = [place for place in np.flatnonzero(view.placed_sizes).tolist() if place != group]
    # Parts that may be some other group would not count as groups of their own.
    kept = "; they belong to no other group" if others else ""
    sentence = f"{quote(group)} is split into {len(seeds)} parts around the chosen items{kept}."
    anchors = [_anchor(view, place, but=seeds) for place in others]
    apart = [*combinations(seeds, 2), *((seed, anchor) for seed in seeds for anchor in anchors)]
    return [(left, right, False) for left, right in apart], sentence


def _remove(view: View, body: dict[str, Any], quote: Quote) -> tuple[list[Link], str]:
    group, rows = _group(view, body.get("group")), _rows(view, body.get("rows"))
    anchor = _anchor(view, group, but=rows)
    count = "1 item does" if len(rows) == 1 else f"{len(rows)} items do"
    return [(row, anchor, False) for row in rows], f"{count} not belong in {quote(group)}."


def _move(view: View, body: dict[str, Any], quote: Quote) -> tuple[list[Link], str]:
    rows = _rows(view, body.get("rows"))
    if body.get("to") is None:
        return _set_apart(view, rows)
    group = _group(view, body["to"])
    anchor = _anchor(view, group, but=rows)
    count = "1 item belongs" if len(rows) == 1 else f"{len(rows)} items belong"
    return [(row, anchor, True) for row in rows], f"{count} in {quote(group)}."


def _set_apart(view: View, rows: Sequence[int]) -> tuple[list[Link], str]:
    """Rows that are a group of their own: they belong together, and not to the groups that they leave."""
    left = {group.id: group for row in rows if (group := view.group_of(row)) is not None}
    anchors = [_anchor(view, view.groups.index(group), but=rows) for group in left.values()]
    together: list[Link] = [(rows[0], row, True) for row in rows[1:]]
    return [
        *together,
        *((rows[0], anchor, False) for anchor in anchors),
    ], "1 item is a new group." if len(rows) == 1 else f"{len(rows)} items are a new group."


_ACTIONS: dict[str, Callable[[View, dict[str, Any], Quote], tuple[list[Link], str]]] = {
    "merge": _merge,
    "separate": _separate,
    "split": _split,
    "remove": _remove,
    "move": _move,
}


def _replaced(
    answers: Sequence[Answer], wanted: Sequence[Link]
) -> tuple[tuple[Answer, ...], tuple[Link, ...]]:
    """Answers that say the opposite of some wanted link, and what else they say."""
    said: dict[Link, list[Answer]] = {}
    for answer in answers:
        for link in answer.links:
            said.setdefault(link, []).append(answer)
    opposed: set[Link] = set()
    accepted: list[Link] = []
    groups = Groups(said)
    for link in wanted:
        while groups.relation(link[0], link[1]) is (not link[2]):
            against = _against(said, accepted, groups, link)
            if not against:
                raise InvalidAnswerError("that contradicts itself; nothing was written.")
            opposed.update(against)
            for one in against:
                del said[one]
            groups = Groups([*said, *accepted])
        groups.add([link])
        accepted.append(link)
    gone = tuple(answer for answer in answers if opposed.intersection(answer.links))
    kept = (link for answer in gone for link in answer.links if link not in opposed)
    return gone, tuple(dict.fromkeys(link for link in kept if link not in wanted))


def _against(
    said: dict[Link, list[Answer]], accepted: Sequence[Link], groups: Groups, link: Link
) -> list[Link]:
    """Statements to give up so that a wanted link can hold.

    For a must-link every cannot-link between the two components; for a cannot-link the step nearest to its
    left row of the shortest chain that holds both rows together.
    """
    left, right, is_same = link
    if is_same:
        ends = {groups.root(left), groups.root(right)}
        return [one for one in said if not one[2] and {groups.root(one[0]), groups.root(one[1])} == ends]
    chain = shortest_proof([*said, *accepted], left, right, is_same=True)
    return next(([step] for step in chain if step in said), [])


def _anchor(view: View, position: int, *, but: Sequence[int] = ()) -> int:
    """A row that stands for a group: one that people placed, else the most typical."""
    avoided = set(but)
    listed = view.groups[position].typical
    members = view.members(position)
    placed = set(members)
    for row in (*(row for row in listed if row in placed), *members, *listed):
        if row not in avoided:
            return row
    raise InvalidAnswerError("all items that are known of this group were chosen; nothing was written.")


def _groups(view: View, given: Any) -> list[int]:
    if not isinstance(given, list) or not 2 <= len(set(map(str, given))) <= 20:
        raise InvalidAnswerError("choose at least two different groups; nothing was written.")
    return [_group(view, one) for one in dict.fromkeys(map(str, given))]


def _group(view: View, given: Any) -> int:
    position = view.position(str(given))
    if position is None:
        raise InvalidAnswerError("that group is not there any more; nothing was written.")
    return position


def _rows(view: View, given: Any) -> list[int]:
    is_list = isinstance(given, list) and all(type(row) is int for row in given)
    if not is_list or not 1 <= len(given) <= MOST_ROWS:
        raise InvalidAnswerError(f"choose 1 to {MOST_ROWS} rows; nothing was written.")
    rows = list(dict.fromkeys(given))
    if not all(0 <= row < view.version.n_rows for row in rows):
        raise InvalidAnswerError(f"rows go from 0 to {view.version.n_rows - 1}; nothing was written.")
    return rows

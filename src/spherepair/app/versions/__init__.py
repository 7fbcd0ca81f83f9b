"""What a model makes of the rows: groups that keep their identity from model to model, and the map.

A version is a folder that a worker writes once and renames into place: the model, and for every row its
group, how sure it is, and where it stands on the map. Between two versions the answers win: a row that
people have placed is shown where they put it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.app.versions.maps import (
    Floats,
    Integers,
    Membership,
    disc_map,
    first_of_each,
    flat_map,
    frame,
    match_groups,
    membership,
    place_discs,
)
from spherepair.files import atomic_folder, atomic_write_text

VERSIONS, MODEL, DETAILS = "versions", ".model", "version.json"
#: Group of a row that is in none.
NO_GROUP = 65535
#: Rows listed for each group as typical, unsure and odd.
LISTED = 6
#: What the latest answers changed is told against a version that knew so many fewer.
LATELY = 20


@dataclass(frozen=True)
class Group:
    """A group of a version.

    Attributes
    ----------
    id : str
        Stays with the group from version to version.
    number : int
        Names a group that nobody has named: "Group 3".
    typical, unsure, odd : tuple of int
        Rows near its center, rows that may belong elsewhere, rows far from its center.
    disc : tuple of float
        Middle and radius on the map, before it is scaled.
    came, went : int
        Rows that were not in it before, and rows that no longer are.
    split_from : str or None
        Group that most of its rows come from, if that one goes on as another.
    merged_from : tuple of str
        Groups that are no more and most of whose rows are in this one.
    """

    id: str
    number: int
    typical: tuple[int, ...] = ()
    unsure: tuple[int, ...] = ()
    odd: tuple[int, ...] = ()
    disc: tuple[float, ...] = (0.0, 0.0, 1.0)
    came: int = 0
    went: int = 0
    split_from: str | None = None
    merged_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placed:
    """Rows that people have placed, and the groups that they are shown in.

    Attributes
    ----------
    rows : ndarray of shape (m,)
    numbers : ndarray of shape (m,)
        Position of each row's group in ``ids``.
    ids : tuple of str
    """

    rows: Integers
    numbers: Integers
    ids: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Version:
    """What one model makes of the rows."""

    number: int
    n_answers: int
    n_rows: int
    groups: tuple[Group, ...] = ()
    rows_moved: int = 0
    groups_new: int = 0
    width: float | None = None
    folder: Path | None = None

    @cached_property
    def labels(self) -> NDArray[np.uint16]:
        """Position of each row's group; :data:`NO_GROUP` for none."""
        found: NDArray[np.uint16] = self._array("labels", np.uint16, NO_GROUP)
        return found

    @cached_property
    def confidence(self) -> NDArray[np.uint8]:
        """How sure each row is, 0 to 255."""
        found: NDArray[np.uint8] = self._array("confidence", np.uint8, 0)
        return found

    @cached_property
    def places(self) -> Floats:
        """Where rows stand on the map, in [-1, 1]."""
        found: Floats = self._array("places", np.float32, 0.0, width=2)
        return found

    @cached_property
    def anchors(self) -> Integers:
        """Rows that people had placed when the model was fitted: groups are recognized by them."""
        if self.folder is None:
            return np.empty(0, dtype=np.int64)
        found: Integers = np.load(self.folder / "anchors.npy", allow_pickle=False)
        return found

    @property
    def model_folder(self) -> Path | None:
        """The saved model."""
        return None if self.folder is None else self.folder.with_suffix(MODEL)

    def _array(self, name: str, kind: Any, blank: float, width: int = 1) -> Any:
        if self.folder is None:
            return np.full((self.n_rows, width) if width > 1 else self.n_rows, blank, dtype=kind)
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def latest_version(project: Path, n_rows: int) -> Version:
    """The newest version in the folder of a project; an empty one where there is none."""
    folders = _version_folders(project)
    return _read_version(folders[-1]) if folders else Version(0, -1, n_rows)


def earlier_versions(project: Path) -> list[Version]:
    """The versions that are kept, the oldest first, with the groups of their rows at hand."""
    versions = [_read_version(folder) for folder in _whole_folders(project)]
    for version in versions:
        version.labels  # noqa: B018  (a file that is open outlives its folder)
    return versions


def version_before(versions: Sequence[Version], n_answers: int, n_rows: int) -> Version | None:
    """The newest version that knew at least :data:`LATELY` answers fewer; an empty one before the first."""
    is_since_begin = not versions or versions[0].number == 1
    found = [Version(0, 0, n_rows), *versions] if is_since_begin else versions
    return next((one for one in reversed(found) if one.n_answers <= n_answers - LATELY), None)


def _read_version(folder: Path) -> Version:
    details = json.loads((folder / DETAILS).read_text(encoding="utf-8"))
    groups = tuple(_group(line) for line in details.pop("groups"))
    return Version(**details, groups=groups, folder=folder)


def write_version(
    project: Path, number: int, model: Any, *, n_answers: int, placed: Placed, before: Version
) -> Path:
    """Write all that a model makes of the rows; it appears whole or not at all.

    Parameters
    ----------
    project : Path
        Folder of the project.
    number : int
        Of the new version.
    model : fitted SpherePair
    n_answers : int
        Answers that it has learned from; with none there are no groups yet.
    placed : Placed
    before : Version
    """
    embedding: Floats = np.asarray(model.embedding_, dtype=np.float32)
    old_places = None if before.folder is None else before.places
    if n_answers <= 0 or not len(placed.ids):
        version = Version(number, n_answers, len(embedding))
        arrays: dict[str, Any] = {
            "labels": version.labels,
            "confidence": version.confidence,
            "places": flat_map(embedding, old_places),
        }
    else:
        centers = np.asarray(model.cluster_centers_, dtype=np.float32)
        labels = _with_placed(model.labels_, placed, len(centers))
        version, arrays = _grouped(embedding, membership(embedding, centers, labels), centers, placed, before)
        version = replace(version, number=number, n_answers=n_answers)
    target = project / VERSIONS / f"{number:06d}"
    target.parent.mkdir(exist_ok=True)
    model.save(target.with_suffix(MODEL))
    with atomic_folder(target) as folder:
        for name, array in {**arrays, "anchors": np.sort(placed.rows)}.items():
            np.save(folder / f"{name}.npy", array)
        details = asdict(version)
        del details["folder"]
        atomic_write_text(folder / DETAILS, json.dumps(details))
    _remove_old_versions(project, n_answers)
    return target


def _remove_old_versions(project: Path, n_answers: int) -> None:
    """Keep the latest two, and of the one that they are compared with all but its model."""
    whole = _whole_folders(project)
    versions = [_read_version(folder) for folder in whole]
    compared = version_before(versions, n_answers, versions[-1].n_rows)
    for old in _version_folders(project):
        if old not in whole[-2:]:
            shutil.rmtree(old.with_suffix(MODEL), ignore_errors=True)
            if compared is None or old != compared.folder:
                (old / DETAILS).unlink(missing_ok=True)  # first: what is half removed is no version
                shutil.rmtree(old, ignore_errors=True)


def _grouped(
    embedding: Floats, found: Membership, centers: Floats, placed: Placed, before: Version
) -> tuple[Version, dict[str, Any]]:
    """A version with groups, and its arrays."""
    number, n_groups = before.number + 1, len(centers)
    old_ids, old_labels = _labels_before(before, placed, len(embedding))
    weight = np.ones(len(embedding))
    weight[placed.rows] += len(embedding) / max(1, len(placed.rows))  # people's rows count as much as all
    origin, shared = match_groups(
        old_labels, found.labels, n_before=max(1, len(old_ids)), n_after=n_groups, weight=weight
    )
    groups = _name_groups(number, origin, shared, old_ids, before)
    sizes = np.bincount(found.labels, minlength=n_groups)
    discs = _discs(groups, sizes, centers, before)
    width = frame(discs, before.width)
    old_places = None if before.folder is None else before.places
    typical = first_of_each(found.labels, found.distance, n_groups, LISTED)
    unsure = first_of_each(found.labels, found.other_distance - found.distance, n_groups, 2 * LISTED)
    odd = first_of_each(found.labels, -found.distance, n_groups, 3 * LISTED)
    is_moved = _moved(found.labels, old_labels, origin)
    came = np.bincount(found.labels[is_moved], minlength=n_groups)
    went = np.bincount(old_labels[is_moved], minlength=max(1, len(old_ids)))
    groups = [
        replace(
            group,
            disc=tuple(float(value) for value in discs[place]),
            came=int(came[place]),
            went=int(went[origin[place]]) if place in origin else 0,
            **_listed(typical[place], unsure[place], odd[place]),
        )
        for place, group in enumerate(groups)
    ]
    version = Version(
        number,
        0,
        len(embedding),
        tuple(groups),
        rows_moved=int(is_moved.sum()),
        groups_new=n_groups - len(origin),
        width=width,
    )
    places = disc_map(embedding, found, discs, old_places) / width
    return version, {
        "labels": found.labels.astype(np.uint16),
        "confidence": np.round(255 * found.share).astype(np.uint8),
        "places": np.clip(places, -1.0, 1.0).astype(np.float32),
    }


def _listed(typical: Sequence[int], unsure: Sequence[int], odd: Sequence[int]) -> dict[str, Any]:
    """What is listed of a group; each row once."""
    unsure = [row for row in unsure if row not in typical][:LISTED]
    odd = [row for row in odd if row not in (*typical, *unsure)][:LISTED]
    return {"typical": tuple(typical), "unsure": tuple(unsure), "odd": tuple(odd)}


def _with_placed(model_labels: Integers, placed: Placed, n_groups: int) -> Integers:
    """The labels of a model, with rows that people have placed in the cluster of their group."""
    labels = np.array(model_labels, dtype=np.int64)
    labels[labels < 0] = 0
    cluster_of, _ = match_groups(
        labels[placed.rows],
        placed.numbers,
        n_before=n_groups,
        n_after=len(placed.ids),
        weight=np.ones(len(placed.rows)),
    )
    wanted = np.array([cluster_of.get(number, -1) for number in range(len(placed.ids))], dtype=np.int64)
    wanted = wanted[placed.numbers]
    labels[placed.rows[wanted >= 0]] = wanted[wanted >= 0]
    return labels


def _labels_before(before: Version, placed: Placed, n_rows: int) -> tuple[list[str], Integers]:
    """Ids of the groups that were shown, and each row's position among them; -1 for none."""
    ids = list(placed.ids) + [group.id for group in before.groups if group.id not in placed.ids]
    place_of = {name: place for place, name in enumerate(ids)}
    lookup = np.full(NO_GROUP + 1, -1, dtype=np.int64)
    lookup[: len(before.groups)] = [place_of[group.id] for group in before.groups]
    labels = lookup[before.labels]
    labels[placed.rows] = placed.numbers
    return ids, labels


def _name_groups(
    number: int, origin: dict[int, int], shared: NDArray[Any], old_ids: Sequence[str], before: Version
) -> list[Group]:
    numbers = {group.id: group.number for group in before.groups}
    highest = max(numbers.values(), default=0)
    total_before, total = shared.sum(axis=1), shared.sum(axis=0)
    gone = [
        place for place in range(len(old_ids)) if place not in origin.values() and total_before[place] > 0
    ]
    groups: list[Group] = []
    for cluster in range(shared.shape[1]):
        split_from = None
        if cluster in origin:
            name = old_ids[origin[cluster]]
        else:
            name = f"v{number}c{cluster}"
            source = int(shared[:, cluster].argmax())
            if old_ids and 2 * shared[source, cluster] > total[cluster] > 0:
                split_from = old_ids[source]
        if name not in numbers:
            highest += 1
            numbers[name] = highest
        merged = tuple(
            old_ids[place]
            for place in gone
            if int(shared[place].argmax()) == cluster and 2 * shared[place, cluster] > total_before[place]
        )
        groups.append(Group(name, numbers[name], split_from=split_from, merged_from=merged))
    return groups


def _discs(groups: Sequence[Group], sizes: Integers, centers: Floats, before: Version) -> NDArray[Any]:
    old = {group.id: group.disc for group in before.groups}
    is_kept = np.array([group.id in old for group in groups], dtype=bool)
    spread = flat_map(centers, None).astype(np.float64) * np.sqrt(len(groups))
    start = np.array(
        [
            old.get(group.id, old.get(group.split_from or "", spread[place]))[:2]
            for place, group in enumerate(groups)
        ],
        dtype=np.float64,
    ).reshape(-1, 2)
    return place_discs(sizes, start, is_kept)


def _moved(labels: Integers, old_labels: Integers, origin: dict[int, int]) -> NDArray[np.bool_]:
    """Rows that were in a group, and are in another one now."""
    expected = np.array([origin.get(cluster, -2) for cluster in range(int(labels.max()) + 1)])
    moved: NDArray[np.bool_] = (expected[labels] != old_labels) & (old_labels >= 0)
    return moved


def _group(line: dict[str, Any]) -> Group:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in line.items()
    }
    return Group(**fields)


def _whole_folders(project: Path) -> list[Path]:
    """Folders of versions without those that were being removed when the process was killed."""
    return [folder for folder in _version_folders(project) if (folder / DETAILS).exists()]


def _version_folders(project: Path) -> list[Path]:
    folder = project / VERSIONS
    if not folder.is_dir():
        return []
    return sorted(one for one in folder.iterdir() if re.fullmatch(r"\d{6}", one.name))

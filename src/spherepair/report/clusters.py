"""Each cluster in a few words and examples: its size, what sets it apart, typical and borderline rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.constraints import Constraints
from spherepair.report.gallery import Gallery, RowCard, format_number
from spherepair.report.images import png_uri
from spherepair.report.placement import Placement
from spherepair.report.profiles import Profiles
from spherepair.report.questions import between_clusters

Integers = NDArray[np.int64]
SHOWN_COLUMNS = 5


@dataclass(frozen=True)
class ColumnNote:
    """A column that sets a cluster apart: its mean there, and over all rows."""

    name: str
    cluster_mean: str
    mean: str
    is_higher: bool


@dataclass(frozen=True)
class ClusterCard:
    """One cluster.

    Attributes
    ----------
    cluster : int
    n_rows : int
    share : float
        Of all rows.
    n_must_link, n_cannot_link : int
        Constraints with an end in the cluster.
    n_borderline : int
    neighbour : int
        The cluster that most of its rows have as their second choice; -1 for none.
    columns : tuple of ColumnNote
        What sets it apart; empty where rows are images.
    average : str or None
        The mean of its rows as a picture.
    typical, borderline : tuple of RowCard
    """

    cluster: int
    n_rows: int
    share: float
    n_must_link: int
    n_cannot_link: int
    n_borderline: int
    neighbour: int
    columns: tuple[ColumnNote, ...]
    average: str | None
    typical: tuple[RowCard, ...]
    borderline: tuple[RowCard, ...]


def describe_clusters(
    gallery: Gallery, profiles: Profiles, *, constraints: Constraints, n_examples: int
) -> tuple[ClusterCard, ...]:
    """All clusters in the order of their numbers."""
    placement = gallery.placement
    links = [
        between_clusters(placement, constraints, is_must_link=kind).sum(axis=1) for kind in (True, False)
    ]
    return tuple(
        _describe(gallery, profiles, cluster=cluster, links=(int(must), int(cannot)), n_examples=n_examples)
        for cluster, (must, cannot) in enumerate(zip(*links, strict=True))
    )


def _describe(
    gallery: Gallery, profiles: Profiles, *, cluster: int, links: tuple[int, int], n_examples: int
) -> ClusterCard:
    placement = gallery.placement
    members = placement.members(cluster)
    columns = profiles.distinguishing(cluster, SHOWN_COLUMNS)
    typical, borderline = _examples(placement, members, n_examples)
    return ClusterCard(
        cluster=cluster,
        n_rows=len(members),
        share=len(members) / max(1, len(placement.labels)),
        n_must_link=links[0],
        n_cannot_link=links[1],
        n_borderline=int(placement.is_borderline[members].sum()),
        neighbour=_most_frequent(placement.other[members]),
        columns=_notes(gallery, profiles, cluster, columns),
        average=_average(gallery, profiles.cluster_means[cluster]),
        typical=gallery.cards(typical, columns),
        borderline=gallery.cards(borderline, columns),
    )


def _examples(placement: Placement, members: Integers, count: int) -> tuple[Integers, Integers]:
    """Rows next to the centre, and the least sure of the others, which need not be borderline."""
    typical, rest = members[:count], members[count:]
    return typical, rest[np.argsort(placement.sureness[rest], kind="stable")[:count]]


def _most_frequent(others: Integers) -> int:
    known = others[others >= 0]
    return int(np.bincount(known).argmax()) if len(known) else -1


def _notes(gallery: Gallery, profiles: Profiles, cluster: int, columns: Integers) -> tuple[ColumnNote, ...]:
    if gallery.kind == "image":
        return ()
    means, overall = profiles.cluster_means[cluster], profiles.mean
    return tuple(
        ColumnNote(
            name=gallery.columns[place],
            cluster_mean=format_number(float(means[place])),
            mean=format_number(float(overall[place])),
            is_higher=bool(means[place] > overall[place]),
        )
        for place in columns.tolist()
    )


def _average(gallery: Gallery, mean: NDArray[Any]) -> str | None:
    if gallery.kind != "image" or gallery.image_shape is None:
        return None
    return png_uri(gallery.image_shape.pixels(mean[None])[0])

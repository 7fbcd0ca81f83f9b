"""Colours that stay apart for colour-blind readers (Okabe and Ito), and markers once they run out."""

from __future__ import annotations

from dataclasses import dataclass

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BLACK, YELLOW = "#56B4E9", "#CC79A7", "#222222", "#D8C400"
GREY = "#777777"

#: Okabe-Ito, with its yellow a little darker so that it shows on white.
COLOURS = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, BLACK)
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "p")


@dataclass(frozen=True)
class ClusterStyle:
    """How the points of one cluster are drawn."""

    colour: str
    marker: str


def cluster_style(cluster: int) -> ClusterStyle:
    """The style of a cluster: eight colours, then the same colours with another marker.

    Examples
    --------
    >>> cluster_style(0), cluster_style(8)
    (ClusterStyle(colour='#0072B2', marker='o'), ClusterStyle(colour='#0072B2', marker='^'))
    """
    round_number, colour = divmod(cluster, len(COLOURS))
    return ClusterStyle(COLOURS[colour], MARKERS[round_number % len(MARKERS)])

"""Colours that stay apart for colour-blind readers (Okabe and Ito), each with a second cue.

Clusters differ in colour and marker, lines in colour, marker and dash, so that a picture can be
read in black and white too. Sixty-four clusters have styles of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BLACK, YELLOW = "#56B4E9", "#CC79A7", "#222222", "#D8C400"
GREY, PALE = "#777777", "#D5DAE0"

#: Okabe-Ito, with its yellow a little darker so that it shows on white. The last two also draw
#: constraints: with six clusters or fewer no line has the colour of a cluster.
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, VERMILION, BLACK)
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "p")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)))
#: Rounds of the colours: as they are, darker, lighter; (towards black or white, by how much).
_SHADES = ((0, 0.0), (0, 0.4), (255, 0.5))
MUST_LINK: dict[str, Any] = {"color": BLACK, "linestyle": "-"}
CANNOT_LINK: dict[str, Any] = {"color": VERMILION, "linestyle": (0, (4, 2))}


@dataclass(frozen=True)
class ClusterStyle:
    """How the points of one cluster are drawn."""

    colour: str
    marker: str


def cluster_style(cluster: int) -> ClusterStyle:
    """The style of a cluster: after eight the colours are darker, then lighter, with other markers.

    Examples
    --------
    >>> cluster_style(0), cluster_style(8)
    (ClusterStyle(colour='#0072b2', marker='o'), ClusterStyle(colour='#00446b', marker='^'))
    """
    round_number, colour = divmod(cluster, len(COLOURS))
    shade = _shaded(COLOURS[colour], *_SHADES[round_number % len(_SHADES)])
    return ClusterStyle(shade, MARKERS[(colour + round_number) % len(MARKERS)])


def line_style(series: int) -> dict[str, Any]:
    """Colour, marker and dash of a line, as keywords of matplotlib's ``plot``.

    Examples
    --------
    >>> line_style(0)["marker"], line_style(8)["marker"]
    ('o', '^')
    """
    style = cluster_style(series)
    return {"color": style.colour, "marker": style.marker, "linestyle": DASHES[series % len(DASHES)]}


def _shaded(colour: str, target: int, share: float) -> str:
    """A colour moved by a share of the way towards black (0) or white (255)."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (target - part)):02x}" for part in parts)

"""Make the picture of the README: ``python docs/images/make.py`` (about a minute).

Four of the digits that ship with scikit-learn on a sphere of three dimensions, with ω = π / arccos(-1/3),
the one value for which four clusters fit there (Theorem 4.4 of the paper): before any pair was seen, and
after training on 500 random pairs. Both embeddings are turned, as a whole, so that digits face alike.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.spatial.transform import Rotation
from sklearn.datasets import load_digits

from spherepair import Constraints, SpherePair
from spherepair.errors import ConstraintWarning, EmbeddingDimensionWarning
from spherepair.plots import save_figure
from spherepair.plots.palette import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILION
from spherepair.theory import minimal_omega

DIGITS = (0, 1, 2, 3)
N_PAIRS = 500
SHOWN_PAIRS = 14
SEED = 0
#: Where the four digits are to face: a tetrahedron with one corner behind, slightly turned.
TURNS = np.radians([90, 210, 330])
CORNERS = (
    np.array([[0, 0, -3], *([math.sqrt(8) * math.cos(t), math.sqrt(8) * math.sin(t), 1] for t in TURNS)]) / 3
)
VIEW = Rotation.from_euler("xy", [12, -6], degrees=True).as_matrix()
DIGIT_COLOURS = (PURPLE, BLUE, ORANGE, GREEN)
MUST_LINK, CANNOT_LINK = {"color": BLACK}, {"color": VERMILION, "linestyle": (0, (4, 2))}

Floats = NDArray[np.float64]


def main() -> None:
    """Train twice and draw both spheres."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, DIGITS)], y[np.isin(y, DIGITS)]
    pairs = Constraints.from_labels(y, N_PAIRS, random_state=SEED)
    before, after = _embed(X, None), _embed(X, pairs)
    figure = Figure(figsize=(7.4, 4.0), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = ("before: features alone", f"after: {N_PAIRS} pairs")
    for axes, embedding, title in zip(panels, (before, after), titles, strict=True):
        _draw(axes, _turn(embedding, y), y, pairs=_few(pairs), title=title)
    _explain(figure)
    save_figure(figure, Path(__file__).with_name("sphere.png"))


def _embed(X: Floats, pairs: Constraints | None) -> Floats:
    model = SpherePair(
        len(DIGITS),
        embedding_dim=3,
        omega=minimal_omega(len(DIGITS)),
        hidden_dims="compact",
        random_state=SEED,
        device="cpu",
        precision="float32",
        progress=False,
    )
    with warnings.catch_warnings():
        # Three dimensions are one fewer than advised, and no pairs at all are the point of "before".
        warnings.simplefilter("ignore", EmbeddingDimensionWarning)
        warnings.simplefilter("ignore", ConstraintWarning)
        return np.asarray(model.fit(X, constraints=pairs).embedding_, dtype=np.float64)


def _turn(embedding: Floats, y: NDArray[Any]) -> Floats:
    """Turn (or mirror) an embedding as a whole, each digit towards its corner."""
    means = np.array([embedding[y == digit].mean(axis=0) for digit in DIGITS])
    turn, _ = orthogonal_procrustes(means, CORNERS)
    return np.asarray(embedding @ turn @ VIEW.T)


def _few(pairs: Constraints) -> Constraints:
    half = SHOWN_PAIRS // 2
    return pairs.must_links[:half] | pairs.cannot_links[:half]


def _draw(axes: Axes, points: Floats, y: NDArray[Any], *, pairs: Constraints, title: str) -> None:
    _draw_globe(axes)
    for left, right, is_must_link, _ in pairs:
        _draw_arc(axes, points[left], points[right], style=MUST_LINK if is_must_link else CANNOT_LINK)
    for place, digit in enumerate(DIGITS):
        chosen = points[y == digit]
        near = chosen[:, 2] >= 0
        for part, alpha, layer in ((chosen[~near], 0.18, 1), (chosen[near], 0.75, 4)):
            axes.scatter(
                part[:, 0], part[:, 1], s=9, color=DIGIT_COLOURS[place], alpha=alpha, lw=0, zorder=layer
            )
    axes.set_title(title, fontsize=11)
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(-1.06, 1.06)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _draw_globe(axes: Axes) -> None:
    axes.add_patch(Circle((0, 0), 1.0, facecolor="#f6f7f9", edgecolor="#9aa3ad", linewidth=1, zorder=0))
    turn = np.linspace(0, 2 * math.pi, 200)
    tilt = Rotation.from_euler("x", -70, degrees=True).as_matrix()
    for angle in np.radians(np.arange(-60, 90, 30)):
        ring = np.cos(angle) * np.cos(turn), np.cos(angle) * np.sin(turn), np.full(200, np.sin(angle))
        _draw_line(axes, np.column_stack(ring) @ tilt.T)
    for angle in np.radians(np.arange(0, 180, 30)):
        ring = np.cos(turn) * np.cos(angle), np.cos(turn) * np.sin(angle), np.sin(turn)
        _draw_line(axes, np.column_stack(ring) @ tilt.T)


def _draw_line(axes: Axes, line: Floats) -> None:
    front = np.where(line[:, 2:] >= 0, line, np.nan)
    axes.plot(front[:, 0], front[:, 1], color="#d5dae0", linewidth=0.6, zorder=0.5)


def _draw_arc(axes: Axes, start: Floats, end: Floats, *, style: dict[str, Any]) -> None:
    """The great circle from one row to the other, faint where it runs behind the sphere."""
    angle = math.acos(float(np.clip(start @ end, -1, 1)))
    share = np.linspace(0, 1, 80)[:, None]
    if angle < 1e-6:
        return
    arc = (np.sin((1 - share) * angle) * start + np.sin(share * angle) * end) / math.sin(angle)
    for is_near, alpha, layer in ((True, 0.9, 5), (False, 0.25, 1.5)):
        part = np.where((arc[:, 2:] >= 0) == is_near, arc, np.nan)
        axes.plot(part[:, 0], part[:, 1], linewidth=1.2, alpha=alpha, zorder=layer, **style)


def _explain(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    dots = [
        Line2D([], [], marker="o", linestyle="", color=DIGIT_COLOURS[place], label=f"digit {digit}")
        for place, digit in enumerate(DIGITS)
    ]
    lines = [
        Line2D([], [], label="must-link", **MUST_LINK),
        Line2D([], [], label="cannot-link (a few of each)", **CANNOT_LINK),
    ]
    figure.legend(handles=[*dots, *lines], loc="outside lower center", ncols=6, frameon=False, fontsize=8)


if __name__ == "__main__":
    main()

"""The globe: arcs stay on the sphere, clusters face the viewer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair import Constraints
from spherepair.errors import InvalidDataError
from spherepair.plots import plot_sphere
from spherepair.plots.globe import facing, great_circles


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("n_clusters", [2, 3, 4])
def test_clusters_are_turned_apart_in_the_picture(n_clusters):
    from spherepair.theory import simplex_vertices

    corners = simplex_vertices(n_clusters, 3)
    seen = (corners @ facing(corners, np.arange(n_clusters)))[:, :2]
    distances = np.linalg.norm(seen[:, None] - seen, axis=2) + 9 * np.eye(n_clusters)
    assert distances.min() > 0.5


@given(st.integers(0, 2**31))
def test_great_circles_stay_on_the_sphere_and_join_their_ends(seed):
    ends = unit(np.random.default_rng(seed).normal(size=(2, 8, 3)))
    arcs = great_circles(*ends)
    np.testing.assert_allclose(np.linalg.norm(arcs, axis=2), 1.0)
    np.testing.assert_allclose(arcs[:, 0], ends[0], atol=1e-9)
    np.testing.assert_allclose(arcs[:, -1], ends[1], atol=1e-6)


@pytest.mark.parametrize("factor", [1.0, -1.0], ids=["same point", "opposite points"])
def test_great_circle_between_awkward_points_is_one_all_the_same(factor):
    rows = unit(np.random.default_rng(0).normal(size=(20, 3)))
    arcs = great_circles(rows, factor * rows)
    np.testing.assert_allclose(np.linalg.norm(arcs, axis=2), 1.0)
    np.testing.assert_allclose(arcs[:, -1], factor * rows, atol=1e-9)


def test_rows_constraints_and_centers_are_drawn_into_given_axes():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    pairs = Constraints.from_pairs(must_link=[(0, 3)], cannot_link=[(1, 2)])
    rows = np.vstack([np.eye(3), np.eye(3)])
    assert plot_sphere(rows, [0, 1, 2, 0, 1, 2], constraints=pairs, centers=np.eye(3), ax=axes) is figure
    assert sum(line.get_marker() == "*" for line in axes.lines) == 3
    assert sum(len(part.get_offsets()) for part in axes.collections) == 6


def test_sphere_of_other_than_three_dimensions_is_refused(fitted):
    with pytest.raises(InvalidDataError, match="fit with embedding_dim=3"):
        plot_sphere(fitted)

"""Maps of embeddings and of projections show the rows they are given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from spherepair import SpherePair
from spherepair.errors import InvalidDataError
from spherepair.plots import plot_embedding, plot_projections
from spherepair.plots.scatter import polygon_map, principal_plane
from spherepair.plots.style import cluster_style

LABELS = np.arange(60) % 3


def drawn(figure):
    figure.draw_without_rendering()
    return figure


def test_map_draws_each_cluster_in_its_own_style():
    from matplotlib.colors import to_rgb

    labels = np.arange(40) % 10
    figure = drawn(plot_embedding(np.random.default_rng(0).normal(size=(40, 5)), labels))
    points = figure.axes[0].collections
    assert len(points) == 10
    assert sum(len(part.get_offsets()) for part in points) == 40
    colors = [part.get_facecolor()[0, :3] for part in points]
    np.testing.assert_allclose(colors, [to_rgb(cluster_style(k).color) for k in range(10)])


def test_map_of_many_rows_draws_only_some():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    figure = plot_embedding(rows, np.zeros(500), n_points=50)
    assert sum(len(part.get_offsets()) for part in figure.axes[0].collections) == 50


def test_row_at_a_center_stands_at_its_corner():
    corners = polygon_map(np.eye(6), np.eye(6))
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 1.0)
    distances = np.linalg.norm(corners[:, None] - corners, axis=2) + 9 * np.eye(6)
    np.testing.assert_allclose(distances.min(axis=1), 1.0)


def test_row_far_from_all_centers_stands_in_the_middle():
    np.testing.assert_array_equal(polygon_map(-np.ones((1, 3)), np.eye(3)), [[0.0, 0.0]])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 2**31))
def test_every_row_has_a_finite_place_on_the_map(n_rows, dim, seed):
    rows = np.random.default_rng(seed).normal(size=(n_rows, dim))
    assert principal_plane(rows).shape == (n_rows, 2)
    assert np.isfinite(principal_plane(rows)).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_map_does_not_depend_on_how_the_sphere_is_turned(seed):
    rng = np.random.default_rng(seed)
    rows, centers = rng.normal(size=(20, 4)), rng.normal(size=(5, 4))
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    np.testing.assert_allclose(
        polygon_map(rows, centers), polygon_map(rows @ turn, centers @ turn), atol=1e-9
    )


def test_one_cluster_and_two_are_drawn_without_a_polygon():
    rows = np.eye(3)
    for centers in (rows[:1], rows[:2]):
        drawn(plot_embedding(rows, [0, 0, 0], centers=centers))


@pytest.mark.parametrize(
    ("rows", "labels"), [(np.zeros((0, 3)), []), (np.eye(3), [0, 1]), (np.zeros(3), [0])]
)
def test_map_of_nothing_is_refused(rows, labels):
    with pytest.raises(InvalidDataError, match="one label per row"):
        plot_embedding(rows, labels)


def test_map_of_a_model_shows_its_rows_labels_and_centers(fitted):
    ours = drawn(plot_embedding(fitted)).axes[0]
    given_apart = plot_embedding(fitted.embedding_, fitted.labels_, centers=fitted.cluster_centers_).axes[0]
    for left, right in zip(ours.collections, given_apart.collections, strict=True):
        np.testing.assert_array_equal(left.get_offsets(), right.get_offsets())
    assert [text.get_text() for text in ours.texts[:3]] == ["0", "1", "2"]


def test_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        plot_embedding(SpherePair(3))


def test_map_is_drawn_into_given_axes(fitted):
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_embedding(fitted, ax=right) is figure
    assert (len(left.collections), len(right.collections)) == (0, 3)


def points():
    return np.random.default_rng(0).normal(size=(60, 2)) + 5 * LABELS[:, None]


def test_projection_names_its_classes_and_marks_one():
    figure = plot_projections({"SpherePair": points()}, LABELS, names=["cat", "dog", "cow"], highlighted=1)
    figure.draw_without_rendering()
    words = {text.get_text(): text.get_fontweight() for text in figure.axes[0].texts}
    assert words == {"cat": "normal", "dog": "bold", "cow": "normal"}


def test_projections_of_many_methods_have_a_panel_each():
    figure = plot_projections({f"method {k}": points() for k in range(6)}, LABELS)
    figure.draw_without_rendering()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:6] == [f"method {k}" for k in range(6)]


def test_rings_go_around_the_rows_they_are_asked_for():
    wrong = LABELS == 2
    figure = plot_projections({"a": points()}, LABELS, circled={"a": wrong})
    np.testing.assert_array_equal(figure.axes[0].collections[-1].get_offsets(), points()[wrong])


def test_many_rows_are_thinned():
    figure = plot_projections({"a": points()}, LABELS, n_points=9)
    assert sum(len(part.get_offsets()) for part in figure.axes[0].collections) == 9


def test_embedding_that_is_not_projected_is_refused():
    with pytest.raises(InvalidDataError, match="project the embedding to two dimensions first"):
        plot_projections({"a": np.zeros((60, 10))}, LABELS)
    with pytest.raises(InvalidDataError, match="at least one projection"):
        plot_projections({}, LABELS)

"""Pictures show what they are given, touch no global state and are written whole."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spherepair.clustering.cluster_number import Candidate, ClusterNumber
from spherepair.errors import InvalidDataError, InvalidParameterError, MissingDependencyError
from spherepair.plots import demo_picture, embedding_map, save_figure, tail_angle_curve, training_history
from spherepair.plots.embedding import polygon, principal_plane
from spherepair.plots.palette import COLOURS, cluster_style


def number(value=4, method="consensus", n_points=10):
    curve = np.radians(np.minimum(90.0, 30.0 * np.arange(1, n_points + 1)))
    return ClusterNumber(
        value=value,
        method=method,
        curve=curve,
        curve_spread=np.full(n_points, 0.02),
        candidates=(Candidate(value, 1.0),),
        confidence=0.95,
        explanation="four",
    )


def drawn(figure):
    figure.draw_without_rendering()
    return figure


def test_map_draws_each_cluster_in_its_own_style():
    labels = np.arange(40) % 10
    figure = drawn(embedding_map(np.random.default_rng(0).normal(size=(40, 5)), labels))
    points = figure.axes[0].collections
    assert len(points) == 10
    assert sum(len(part.get_offsets()) for part in points) == 40
    styles = {cluster_style(cluster) for cluster in range(64)}
    assert len(styles) == 64


def test_map_of_many_rows_draws_only_some():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    figure = embedding_map(rows, np.zeros(500), n_points=50)
    assert sum(len(part.get_offsets()) for part in figure.axes[0].collections) == 50


def test_row_at_a_centre_stands_at_its_corner():
    corners = polygon(np.eye(6), np.eye(6))
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 1.0)
    distances = np.linalg.norm(corners[:, None] - corners, axis=2) + 9 * np.eye(6)
    np.testing.assert_allclose(distances.min(axis=1), 1.0)


def test_row_far_from_all_centres_stands_in_the_middle():
    np.testing.assert_array_equal(polygon(-np.ones((1, 3)), np.eye(3)), [[0.0, 0.0]])


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
    np.testing.assert_allclose(polygon(rows, centers), polygon(rows @ turn, centers @ turn), atol=1e-9)


def test_one_cluster_and_two_are_drawn_without_a_polygon():
    rows = np.eye(3)
    for centers in (rows[:1], rows[:2]):
        drawn(embedding_map(rows, [0, 0, 0], centers=centers))


@pytest.mark.parametrize(
    ("rows", "labels"), [(np.zeros((0, 3)), []), (np.eye(3), [0, 1]), (np.zeros(3), [0])]
)
def test_map_of_nothing_is_refused(rows, labels):
    with pytest.raises(InvalidDataError, match="one label per row"):
        embedding_map(rows, labels)


def test_curve_marks_the_onset_one_dimension_before_the_number():
    axes = drawn(tail_angle_curve(number(value=4))).axes[0]
    assert axes.get_title() == "4 clusters, confidence 0.95"
    mark = next(line for line in axes.lines if str(line.get_label()).startswith("onset"))
    assert (mark.get_xdata()[0], round(mark.get_ydata()[0])) == (3, 90)


@pytest.mark.parametrize("method", ["silhouette", "lifetime"])
def test_scores_are_drawn_over_numbers_of_clusters(method):
    axes = drawn(tail_angle_curve(number(value=4, method=method))).axes[0]
    assert axes.get_xlabel() == "number of clusters"
    mark = next(line for line in axes.lines if str(line.get_label()).startswith("chosen"))
    assert mark.get_xdata()[0] == 4


@pytest.mark.parametrize("value", [1, 2])
def test_few_clusters_are_drawn_too(value):
    drawn(tail_angle_curve(number(value=value)))


def test_curve_without_points_says_so():
    empty = ClusterNumber(1, "silhouette", np.zeros(0), np.zeros(0), (Candidate(1, 1.0),), 0.3, "")
    assert "no cannot-links" in drawn(tail_angle_curve(empty)).axes[0].texts[0].get_text()


def test_history_breaks_its_lines_between_stages():
    history = [{"stage": "pretraining", "epoch": e, "loss": 1.0, "reconstruction": 1.0} for e in range(4)]
    history += [
        {"stage": "pairs", "epoch": e, "loss": 0.1, "reconstruction": 0.1, "pairs": 0.2} for e in range(3)
    ]
    axes = drawn(training_history(history)).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert np.isnan(lines["reconstruction"]).sum() == 1
    assert np.isfinite(lines["pairs"]).sum() == 3
    assert [text.get_text() for text in axes.texts] == ["pretraining", "pairs", "reconstruction", "pairs"]


def test_history_of_a_term_below_zero_keeps_it_in_sight():
    history = [{"stage": "pairs", "epoch": e, "pairs": 1.0, "volume": -5.0} for e in range(3)]
    axes = drawn(training_history(history)).axes[0]
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[0] <= -5.0


def test_history_of_nothing_is_refused():
    with pytest.raises(InvalidDataError, match="fit the model first"):
        training_history([])


def test_demo_picture_has_a_map_and_a_curve(tmp_path):
    figure = demo_picture(np.eye(5), np.arange(5), number(), centers=np.eye(5), map_title="Five rows")
    assert [axes.get_title() for axes in figure.axes] == ["Five rows", "4 clusters, confidence 0.95"]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_saved_picture_is_whole_and_alone(tmp_path, suffix):
    save_figure(tail_angle_curve(number()), tmp_path / f"curve{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [f"curve{suffix}"]
    assert (tmp_path / f"curve{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_equal_pictures_are_equal_files(tmp_path, suffix):
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        save_figure(tail_angle_curve(number()), file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_failed_picture_leaves_nothing_behind(tmp_path, monkeypatch):
    figure = tail_angle_curve(number())

    def fail(path, **_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="No space"):
        save_figure(figure, tmp_path / "curve.png")
    assert list(tmp_path.iterdir()) == []


def test_picture_of_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"must end in \.png"):
        save_figure(tail_angle_curve(number()), tmp_path / "curve.bmp")


def test_pictures_leave_pyplot_alone():
    before = "matplotlib.pyplot" in sys.modules
    drawn(tail_angle_curve(number()))
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_missing_matplotlib_is_a_sentence_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"spherepair\[plots\]"):
        tail_angle_curve(number())


def test_colours_are_eight_and_different():
    assert len(set(COLOURS)) == 8

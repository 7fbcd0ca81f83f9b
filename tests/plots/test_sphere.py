"""Training on the sphere: strips and films show the snapshots, turned as a whole and never bent."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from spherepair import Constraints
from spherepair.errors import InvalidDataError, InvalidParameterError, MissingDependencyError
from spherepair.plots import SphereEvolution, animate_sphere, plot_sphere_strip, save_animation
from spherepair.plots.evolution import early_steps
from spherepair.plots.sphere import facing, great_circles

LABELS = np.arange(30) % 3


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def evolution(n_snapshots=4, labels=LABELS, **options):
    noise = np.random.default_rng(0).normal(size=(n_snapshots, len(labels), 3))
    rows = unit(np.eye(3)[labels % 3] + noise / np.arange(1, n_snapshots + 1)[:, None, None])
    return SphereEvolution(rows, labels, **options)


def pairs():
    return Constraints.from_labels(LABELS, 40, random_state=0)


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 4, 5])
def test_turning_changes_no_angle(n_clusters):
    labels = np.arange(40) % n_clusters
    given_rows = evolution(labels=labels)
    turned = given_rows.turned(n_pairs=4)
    before, after = given_rows.frames, turned.frames
    np.testing.assert_allclose(
        np.einsum("fnd,fmd->fnm", before, before), np.einsum("fnd,fmd->fnm", after, after), atol=1e-9
    )


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


def test_strip_has_a_line_per_evolution_and_a_panel_per_snapshot():
    runs = [evolution(12, name="K = 3", constraints=pairs()), evolution(12, name="again")]
    figure = plot_sphere_strip(runs, n_snapshots=4)
    figure.draw_without_rendering()
    assert [axes.get_title() for axes in figure.axes[:4]] == ["epoch 0", "epoch 1", "epoch 4", "epoch 11"]
    assert [axes.texts[0].get_text() for axes in (figure.axes[0], figure.axes[4])] == ["K = 3", "again"]


def test_centres_are_drawn_in_the_last_panel_only():
    figure = plot_sphere_strip(evolution(3, centers=np.eye(3)))
    stars = [sum(line.get_marker() == "*" for line in axes.lines) for axes in figure.axes]
    assert stars == [0, 0, 3]


def test_legend_tells_links_only_where_there_are_some():
    def words(figure):
        return [text.get_text() for text in figure.legends[0].get_texts()]

    assert "must-link" in words(plot_sphere_strip(evolution(constraints=pairs())))
    assert words(plot_sphere_strip(evolution())) == ["class 0", "class 1", "class 2"]
    assert words(plot_sphere_strip(evolution(class_names=["a", "b", "c"]))) == ["a", "b", "c"]


def test_only_a_few_constraints_of_each_kind_are_drawn():
    shown = evolution(constraints=pairs()).turned(n_pairs=10).constraints
    assert (shown.is_must_link.sum(), len(shown)) == (5, 10)


@given(st.integers(1, 300), st.integers(1, 12))
def test_steps_are_different_and_include_the_last(n_frames, count):
    steps = early_steps(n_frames, count)
    assert len(set(steps)) == len(steps) == min(n_frames, count)
    assert max(steps) <= n_frames - 1
    if count > 1:
        assert (steps[0], steps[-1]) == (0, n_frames - 1)


@pytest.mark.parametrize("shape", [(4, 30, 2), (30, 3), (0, 30, 3), (4, 29, 3)])
def test_snapshots_that_are_not_three_dimensional_are_refused(shape):
    with pytest.raises(InvalidDataError, match="fit with embedding_dim=3"):
        plot_sphere_strip(SphereEvolution(np.zeros(shape), LABELS))


def test_film_is_written_whole_with_a_frame_per_snapshot(tmp_path):
    film = animate_sphere(evolution(3, constraints=pairs(), centers=np.eye(3)), title="Three", fps=4)
    save_animation(film, tmp_path / "film.gif", fps=4, dpi=40)
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]
    with Image.open(tmp_path / "film.gif") as image:
        durations = []
        for index in range(image.n_frames):
            image.seek(index)
            durations.append(image.info["duration"])
    # The last picture stays for a while, as one long frame or as several equal ones.
    assert len(durations) >= 3
    assert sum(durations) == pytest.approx(250 * (3 + 6), abs=50)


def test_frame_shows_the_rows_of_its_snapshot_and_nothing_of_the_one_before(tmp_path):
    run = evolution(3, epochs=[0, 5, 9])
    film = animate_sphere(run)
    save_animation(film, tmp_path / "film.gif", dpi=20)
    axes = film._fig.axes[0]
    assert axes.get_title() == "epoch 9"
    drawn = np.concatenate([part.get_offsets() for part in axes.collections])
    last = run.turned(n_pairs=0).frames[-1][:, :2]
    assert len(drawn) == len(last)
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(last, axis=0))


def test_failed_film_leaves_nothing_behind(tmp_path, monkeypatch):
    film = animate_sphere(evolution(2))

    def fail(path, **_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    save_animation(film, tmp_path / "whole.gif", dpi=20)
    monkeypatch.setattr(film, "save", fail)
    with pytest.raises(OSError, match="No space"):
        save_animation(film, tmp_path / "film.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["whole.gif"]


def test_film_of_an_unknown_kind_or_without_ffmpeg_is_refused(tmp_path, monkeypatch):
    from matplotlib.animation import FFMpegWriter

    film = animate_sphere(evolution(2))
    save_animation(film, tmp_path / "film.gif", dpi=20)
    with pytest.raises(InvalidParameterError, match=r"must end in \.gif, \.mp4"):
        save_animation(film, tmp_path / "film.png")
    monkeypatch.setattr(FFMpegWriter, "isAvailable", lambda: False)
    with pytest.raises(MissingDependencyError, match="ffmpeg"):
        save_animation(film, tmp_path / "film.mp4")


def test_films_leave_pyplot_alone(tmp_path):
    before = "matplotlib.pyplot" in sys.modules
    save_animation(animate_sphere(evolution(2)), tmp_path / "film.gif", dpi=20)
    assert ("matplotlib.pyplot" in sys.modules) == before

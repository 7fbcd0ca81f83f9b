"""Training on the sphere: strips and animations show the snapshots, rotated as a whole and never bent."""

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
from spherepair.plots.evolution import snapshot_positions

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


def test_strip_has_a_line_per_evolution_and_a_panel_per_snapshot():
    runs = [evolution(12, name="K = 3", constraints=pairs()), evolution(12, name="again")]
    figure = plot_sphere_strip(runs, n_snapshots=4)
    figure.draw_without_rendering()
    assert [axes.get_title() for axes in figure.axes[:4]] == ["epoch 0", "epoch 1", "epoch 4", "epoch 11"]
    assert [axes.texts[0].get_text() for axes in (figure.axes[0], figure.axes[4])] == ["K = 3", "again"]


def test_centers_are_drawn_in_the_last_panel_only():
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
    steps = snapshot_positions(n_frames, count)
    assert len(set(steps)) == len(steps) == min(n_frames, count)
    assert max(steps) <= n_frames - 1
    if count > 1:
        assert (steps[0], steps[-1]) == (0, n_frames - 1)


@pytest.mark.parametrize("shape", [(4, 30, 2), (30, 3), (0, 30, 3), (4, 29, 3)])
def test_snapshots_that_are_not_three_dimensional_are_refused(shape):
    with pytest.raises(InvalidDataError, match="fit with embedding_dim=3"):
        plot_sphere_strip(SphereEvolution(np.zeros(shape), LABELS))


def test_animation_is_written_whole_with_a_frame_per_snapshot(tmp_path):
    animation = animate_sphere(evolution(3, constraints=pairs(), centers=np.eye(3)), title="Three", fps=4)
    save_animation(animation, tmp_path / "training.gif", fps=4, dpi=40)
    assert [path.name for path in tmp_path.iterdir()] == ["training.gif"]
    with Image.open(tmp_path / "training.gif") as image:
        durations = []
        for index in range(image.n_frames):
            image.seek(index)
            durations.append(image.info["duration"])
    # The last picture stays for a while, as one long frame or as several equal ones.
    assert len(durations) >= 3
    assert sum(durations) == pytest.approx(250 * (3 + 6), abs=50)


def test_frame_shows_the_rows_of_its_snapshot_and_nothing_of_the_one_before(tmp_path):
    run = evolution(3, epochs=[0, 5, 9])
    animation = animate_sphere(run)
    save_animation(animation, tmp_path / "training.gif", dpi=20)
    axes = animation._fig.axes[0]
    assert axes.get_title() == "epoch 9"
    drawn = np.concatenate([part.get_offsets() for part in axes.collections])
    last = run.turned(n_pairs=0).frames[-1][:, :2]
    assert len(drawn) == len(last)
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(last, axis=0))


def test_failed_animation_leaves_nothing_behind(tmp_path, monkeypatch):
    animation = animate_sphere(evolution(2))

    def fail(path, **_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    save_animation(animation, tmp_path / "whole.gif", dpi=20)
    monkeypatch.setattr(animation, "save", fail)
    with pytest.raises(OSError, match="No space"):
        save_animation(animation, tmp_path / "training.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["whole.gif"]


def test_animation_of_an_unknown_kind_or_without_ffmpeg_is_refused(tmp_path, monkeypatch):
    from matplotlib.animation import FFMpegWriter

    animation = animate_sphere(evolution(2))
    save_animation(animation, tmp_path / "training.gif", dpi=20)
    with pytest.raises(InvalidParameterError, match=r"must end in \.gif, \.mp4"):
        save_animation(animation, tmp_path / "training.png")
    monkeypatch.setattr(FFMpegWriter, "isAvailable", lambda: False)
    with pytest.raises(MissingDependencyError, match="ffmpeg"):
        save_animation(animation, tmp_path / "training.mp4")


def test_animations_leave_pyplot_alone(tmp_path):
    before = "matplotlib.pyplot" in sys.modules
    save_animation(animate_sphere(evolution(2)), tmp_path / "training.gif", dpi=20)
    assert ("matplotlib.pyplot" in sys.modules) == before

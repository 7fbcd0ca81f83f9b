"""Styles tell clusters apart; pictures are written whole and touch no global state."""

from __future__ import annotations

import sys
from itertools import combinations

import pytest

from spherepair.errors import InvalidParameterError, MissingDependencyError
from spherepair.plots import plot_sweep, save_figure
from spherepair.plots.style import COLORS, MARKERS, cluster_style


def picture():
    return plot_sweep([1, 2, 3], [[1.0, 2.0, 4.0]], labels=["a"], title="A line", x_label="D")


def drawn(figure):
    figure.draw_without_rendering()
    return figure


def test_sixty_four_clusters_have_styles_of_their_own():
    styles = {(cluster_style(k).color, cluster_style(k).marker) for k in range(64)}
    assert len(styles) == 64


def test_no_two_of_eight_successive_clusters_share_color_or_marker():
    for start in range(57):
        styles = [cluster_style(k) for k in range(start, start + 8)]
        assert len({style.color for style in styles}) == 8
        assert len({style.marker for style in styles if style.color in COLORS}) >= 7


def test_colors_and_markers_are_all_different():
    assert (len(set(COLORS)), len(set(MARKERS))) == (16, 8)
    parts = [[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in COLORS]
    for left, right in combinations(parts, 2):
        assert sum(abs(a - b) for a, b in zip(left, right, strict=True)) > 50


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_saved_picture_is_whole_and_alone(tmp_path, suffix):
    save_figure(picture(), tmp_path / f"curve{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [f"curve{suffix}"]
    assert (tmp_path / f"curve{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_equal_pictures_are_equal_files(tmp_path, suffix):
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        save_figure(picture(), file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_failed_picture_leaves_nothing_behind(tmp_path, monkeypatch):
    figure = picture()

    def fail(path, **_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="No space"):
        save_figure(figure, tmp_path / "curve.png")
    assert list(tmp_path.iterdir()) == []


def test_picture_of_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"must end in \.png"):
        save_figure(picture(), tmp_path / "curve.bmp")


def test_pictures_leave_pyplot_alone():
    before = "matplotlib.pyplot" in sys.modules
    drawn(picture())
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_missing_matplotlib_is_a_sentence_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"spherepair\[plots\]"):
        picture()

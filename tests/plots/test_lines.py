"""Sweeps, imbalance and scaling: means and spreads are right, every line is named apart from the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.plots import plot_imbalance, plot_scaling, plot_sweep
from spherepair.plots.lines import log_slope, mean_and_spread, spread_out
from spherepair.plots.style import line_style

RUNS = np.array([[[1.0, 3.0], [4.0, 4.0], [2.0, np.nan]], [[5.0, 7.0], [np.nan, np.nan], [9.0, 9.0]]])


def axes_of(figure):
    figure.draw_without_rendering()
    return figure.axes[0]


def names(axes):
    return [text.get_text() for text in axes.texts]


def sweep(**changes):
    given = {"labels": ["a", "b"], "title": "Title", "x_label": "D"} | changes
    return plot_sweep([1, 10, 100], RUNS, **given)


def test_line_is_the_mean_of_the_runs_that_are_there():
    first, second = axes_of(sweep()).lines
    np.testing.assert_array_equal(first.get_ydata(), [2.0, 4.0, 2.0])
    np.testing.assert_array_equal(second.get_ydata(), [6.0, np.nan, 9.0])


def test_spread_is_numpys_without_missing_runs():
    runs = np.random.default_rng(0).normal(size=(3, 4, 5))
    runs[0, 0, 0] = np.nan
    mean, spread = mean_and_spread(runs)
    np.testing.assert_allclose(mean, np.nanmean(runs, axis=-1))
    np.testing.assert_allclose(spread, np.nanstd(runs, axis=-1))


def test_lines_are_named_at_their_ends_and_differ_in_more_than_color():
    axes = axes_of(sweep())
    assert names(axes) == ["a", "b"]
    first, second = axes.lines
    assert first.get_marker() != second.get_marker()
    assert first.get_linestyle() != second.get_linestyle()
    styles = {(s["color"], s["marker"], str(s["linestyle"])) for s in map(line_style, range(64))}
    assert len(styles) == 64


def test_theory_line_stands_where_it_belongs():
    axes = axes_of(sweep(line=10, line_label="D = K", scale="log"))
    assert axes.lines[-1].get_xdata()[0] == 10
    assert "D = K" in names(axes)


def test_symlog_scale_has_room_for_zero():
    figure = plot_sweep(
        [0, 0.01, 1], [[1, 2, 3]], labels=["a"], title="λ", x_label="λ", scale="symlog", line=0.02
    )
    axes = axes_of(figure)
    assert axes.get_xlim()[0] <= 0
    assert "0.01" in [tick.get_text() for tick in axes.get_xticklabels()]


@pytest.mark.parametrize(
    "changes", [{"labels": ["a"]}, {"labels": ["a", "b", "c"]}], ids=["few labels", "many labels"]
)
def test_values_that_do_not_fit_their_labels_are_refused(changes):
    with pytest.raises(InvalidDataError, match="one label per series"):
        sweep(**changes)


def test_unknown_scale_is_refused():
    with pytest.raises(InvalidParameterError, match="scale must be one of linear, log, symlog"):
        sweep(scale="cubic")


def test_long_title_is_broken_so_that_it_fits():
    figure = sweep(title="A title that says in many words what this picture shows to its reader")
    figure.draw_without_rendering()
    title = figure.axes[0].get_title(loc="left")
    assert "\n" in title
    extent = figure.axes[0]._left_title.get_window_extent()
    assert extent.x1 <= figure.bbox.x1


def test_imbalance_names_its_sets_and_methods():
    axes = axes_of(plot_imbalance(RUNS, labels=["SpherePair", "CIDEC"], title="MNIST"))
    assert names(axes) == ["SpherePair", "CIDEC"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["IMB0", "IMB1", "IMB2"]


def test_scaling_tells_the_slope_and_draws_the_proportion():
    sizes = np.array([10.0, 100.0, 1000.0])
    figure = plot_scaling(sizes, [sizes, sizes**2], labels=["linear", "square"], title="Cost")
    axes = axes_of(figure)
    assert "linear, slope 1.0" in names(axes)
    assert "square, slope 2.0" in names(axes)
    proportion = axes.lines[-1]
    assert log_slope(np.asarray(proportion.get_xdata()), np.asarray(proportion.get_ydata())) == pytest.approx(
        1
    )


def test_scaling_refuses_what_has_no_logarithm():
    with pytest.raises(InvalidDataError, match="above zero"):
        plot_scaling([0, 1], [[1, 2]], labels=["a"], title="Cost")


def test_the_slope_is_that_of_the_two_largest_sizes_that_were_measured():
    seconds = [[1.0, 1.0, 4.0, np.nan], [8.0, 4.0, 1.0, 1.0]]
    figure = plot_scaling([1, 2, 4, 8], seconds, labels=["flat, then square", "flat at last"], title="")
    assert "flat, then square, slope 2.0" in names(figure.axes[0])
    assert "flat at last, slope 0.0" in names(figure.axes[0])


def test_slope_of_one_point_is_not_told():
    axes = axes_of(plot_scaling([10, 100], [[1.0, np.nan]], labels=["a"], title="Cost"))
    assert "a" in names(axes)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.3))
def test_names_never_overlap_and_stay_in_the_picture(heights, gap):
    placed = spread_out(heights, gap=gap)
    step = min(gap, 1 / len(heights))
    assert (np.diff(np.sort(placed)) >= step - 1e-9).all()
    assert min(placed) >= -1e-9
    assert max(placed) <= 1 + 1e-9


def test_names_that_are_apart_stay_where_they_are():
    assert spread_out([0.9, 0.1, 0.5], gap=0.1) == pytest.approx([0.9, 0.1, 0.5])


def test_lines_may_have_places_of_their_own():
    figure = plot_sweep(
        [[1, 2], [5, 6]],
        [[10, 20], [30, 40]],
        labels=["a", "b"],
        title="t",
        x_label="minutes",
        name_lines=False,
    )
    assert [line.get_xdata().tolist() for line in figure.axes[0].lines] == [[1, 2], [5, 6]]
    assert not figure.axes[0].texts
    with pytest.raises(InvalidDataError, match="one x per column"):
        plot_sweep([[1, 2]] * 3, [[10, 20], [30, 40]], labels=["a", "b"], title="t", x_label="minutes")

"""Curves of a model: the marker stands at the number of clusters, lines show the terms of the loss."""

from __future__ import annotations

import numpy as np
import pytest

from spherepair import SpherePair
from spherepair.clustering import Candidate, ClusterNumber
from spherepair.errors import InvalidDataError
from spherepair.plots import plot_cluster_number, plot_history, plot_tail_angles
from spherepair.plots.model_curves import levels_off


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


def marked(axes):
    """Where the dashed line stands."""
    return next(line for line in axes.lines if str(line.get_label()).startswith("decided")).get_xdata()[0]


@pytest.mark.parametrize("method", ["consensus", "tail-angle", "silhouette", "lifetime"])
@pytest.mark.parametrize("value", [1, 2, 3, 4, 9])
def test_marker_stands_at_the_number_of_clusters_on_the_axis(method, value):
    axes = drawn(plot_cluster_number(number(value=value, method=method))).axes[0]
    assert marked(axes) == value
    assert axes.get_xlabel().startswith("number of clusters K")
    assert axes.get_title().startswith(f"{value} cluster")
    low, high = axes.get_xlim()
    assert low < value < high


def test_angle_of_d_components_stands_at_d_plus_one_clusters():
    curve = drawn(plot_cluster_number(number(value=4))).axes[0].lines[-2]
    assert curve.get_xdata()[:3].tolist() == [2, 3, 4]
    assert curve.get_ydata()[:3] == pytest.approx([30, 60, 90])


@pytest.mark.parametrize(
    ("degrees", "n_clusters", "expected"),
    [
        ([30, 60, 90, 90], 4, True),
        ([0, 84, 84, 84], 3, True),
        ([0, 45, 60, 75, 84], 3, False),
        ([45, 42, 42, 42], 2, True),
        ([0, 0, 80, 84], 2, False),
        ([30, 60, 90, 90], 5, False),
        ([30, 60], 9, False),
    ],
)
def test_curve_levels_off_only_after_its_last_rise(degrees, n_clusters, expected):
    curve = np.radians(degrees)
    found = ClusterNumber(n_clusters, "consensus", curve, np.zeros(len(curve)), (), 0.9, "")
    assert levels_off(found, n_clusters) is expected


def test_model_without_an_inferred_number_is_refused(fitted):
    with pytest.raises(InvalidDataError, match="fit it with n_clusters='auto'"):
        plot_cluster_number(fitted)


def test_curves_are_drawn_into_given_axes(fitted):
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_cluster_number(number(), ax=left) is figure
    assert plot_history(fitted, ax=right) is figure
    assert left.get_title() == "4 clusters, confidence 0.95"
    assert right.get_xlabel() == "epoch"


@pytest.mark.parametrize("value", [1, 2])
def test_few_clusters_are_drawn_too(value):
    drawn(plot_cluster_number(number(value=value)))


def test_curve_without_points_says_so():
    empty = ClusterNumber(1, "silhouette", np.zeros(0), np.zeros(0), (Candidate(1, 1.0),), 0.3, "")
    assert "no cannot-links" in drawn(plot_cluster_number(empty)).axes[0].texts[0].get_text()


def test_history_breaks_its_lines_between_stages():
    history = [{"stage": "pretraining", "epoch": e, "loss": 1.0, "reconstruction": 1.0} for e in range(4)]
    history += [
        {"stage": "pairs", "epoch": e, "loss": 0.1, "reconstruction": 0.1, "pairs": 0.2} for e in range(3)
    ]
    axes = drawn(plot_history(history)).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert np.isnan(lines["reconstruction"]).sum() == 1
    assert np.isfinite(lines["pairs"]).sum() == 3
    assert [text.get_text() for text in axes.texts] == ["pretraining", "pairs", "reconstruction", "pairs"]


def test_history_of_a_term_below_zero_keeps_it_in_sight():
    history = [{"stage": "pairs", "epoch": e, "pairs": 1.0, "volume": -5.0} for e in range(3)]
    axes = drawn(plot_history(history)).axes[0]
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[0] <= -5.0


def test_history_of_nothing_is_refused():
    with pytest.raises(InvalidDataError, match="fit the model first"):
        plot_history([])


def test_history_of_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(InvalidDataError, match="fit the model first"):
        plot_history(SpherePair(3))


def test_tail_angles_are_drawn_in_degrees_with_the_onset():
    axes = drawn(plot_tail_angles(np.radians([[10, 60, 90, 90]]), labels=["ρ = 0.05"], n_clusters=4)).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [10, 60, 90, 90])
    assert axes.lines[-1].get_xdata()[0] == 3

"""The chart of the number of clusters: marks stand where the headline says, and the caption is true."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spherepair.clustering import Candidate, ClusterNumber
from spherepair.report import build_report, render_report
from spherepair.report.number_chart import LEFT, RIGHT, WIDTH, draw_curve


def number(degrees, value, method="consensus"):
    curve = np.radians(degrees)
    return ClusterNumber(value, method, curve, np.full(len(curve), 0.02), (Candidate(value, 1.0),), 0.9, "")


RISING = [0, 20, 40, 60, 80, 90, 90, 90, 90, 90]
WITH_TWO = [0, 80, 84, 84, 84, 84]


def clusters_at(curve, x):
    """The number of clusters at a place on the axis, by the dots around it."""
    places, numbers = [dot.x for dot in curve.dots], [int(dot.label) for dot in curve.dots]
    return np.polyval(np.polyfit(places, numbers, 1), x)


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 7, 11, 15])
@pytest.mark.parametrize("was_given", [True, False])
def test_mark_stands_at_the_number_of_clusters_of_the_model(n_clusters, was_given):
    curve = draw_curve(number(RISING, n_clusters), n_clusters=n_clusters, was_given=was_given)
    (mark,) = curve.marks
    assert mark.n_clusters == n_clusters
    assert mark.label == ("1 cluster" if n_clusters == 1 else f"{n_clusters} clusters")
    assert clusters_at(curve, mark.x) == pytest.approx(n_clusters, abs=0.05)
    assert LEFT < mark.x < WIDTH - RIGHT


def test_estimate_that_differs_has_a_mark_of_its_own():
    curve = draw_curve(number(RISING, 7), n_clusters=4, was_given=True)
    assert [(mark.n_clusters, mark.is_estimate) for mark in curve.marks] == [(4, False), (7, True)]
    assert [clusters_at(curve, mark.x) for mark in curve.marks] == pytest.approx([4, 7], abs=0.05)
    assert "Dashed: the 4 clusters you asked for." in curve.caption
    assert "Dotted: the best estimate, 7." in curve.caption


@pytest.mark.parametrize(
    ("degrees", "n_clusters", "is_flat"),
    [
        (RISING, 7, True),
        (RISING, 4, False),
        (WITH_TWO, 2, False),
        (WITH_TWO, 3, True),
        ([60, 60, 60], 2, True),
    ],
)
def test_caption_says_that_the_curve_levels_off_only_if_it_does(degrees, n_clusters, is_flat):
    caption = draw_curve(number(degrees, n_clusters), n_clusters=n_clusters, was_given=False).caption
    assert ("The curve levels off there." in caption) is is_flat
    assert ("The curve alone does not settle it" in caption) is not is_flat


def test_every_number_on_the_axis_is_written_once():
    curve = draw_curve(number(np.linspace(0, 90, 64), 32), n_clusters=32, was_given=False)
    labels = [tick.label for tick in curve.x_ticks] + [str(mark.n_clusters) for mark in curve.marks]
    assert len(set(labels)) == len(labels) <= 25


def test_there_is_no_curve_without_angles():
    assert draw_curve(number([], 2), n_clusters=2, was_given=False) is None
    assert draw_curve(number([0.5, 0.6], 2, method="silhouette"), n_clusters=2, was_given=False) is None


def test_page_marks_the_number_of_the_headline(digits):
    report = build_report(digits.model, digits.X, digits.other_pairs)
    page = render_report(report)
    assert re.search(r"<b>(\d+)</b><span>clusters", page)[1] == "10"
    marks = re.findall(r'data-clusters-decided="(\d+)"', page)
    assert marks == ["10"] if report.number.inferred == 10 else ["10", str(report.number.inferred)]

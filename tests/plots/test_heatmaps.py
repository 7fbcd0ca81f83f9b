"""Heat maps show the shares of the constraints between clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair import Constraints
from spherepair.errors import InvalidConstraintsError, InvalidDataError
from spherepair.plots import plot_constraint_heatmaps
from spherepair.plots.heatmaps import pair_shares

LABELS = np.arange(60) % 3


@given(st.integers(0, 2**31), st.integers(1, 200))
def test_shares_of_pairs_sum_up_to_one_in_the_upper_triangle(seed, n_pairs):
    shares = pair_shares(Constraints.from_labels(LABELS, n_pairs, random_state=seed), LABELS)
    assert shares.sum() == pytest.approx(1)
    assert (np.tril(shares, -1) == 0).all()


def test_with_true_labels_must_links_lie_on_the_diagonal():
    pairs = Constraints.from_labels(LABELS, 100, random_state=0)
    shares = pair_shares(pairs, LABELS)
    assert np.trace(shares) == pytest.approx(pairs.is_must_link.mean())


def test_share_does_not_depend_on_which_end_comes_first():
    pairs = Constraints.from_labels(LABELS, 50, random_state=0)
    turned = Constraints.from_arrays(pairs.right, pairs.left, pairs.is_must_link)
    np.testing.assert_array_equal(pair_shares(pairs, LABELS), pair_shares(turned, LABELS))


def test_panels_share_one_scale_and_carry_their_names():
    sets = dict(
        zip(("IMB0", "IMB1", "IMB2"), Constraints.imbalanced(LABELS, 30, random_state=0), strict=True)
    )
    figure = plot_constraint_heatmaps(sets, LABELS, names=["cat", "dog", "cow"])
    figure.draw_without_rendering()
    panels = figure.axes[:3]
    assert [axes.get_title(loc="left") for axes in panels] == ["IMB0", "IMB1", "IMB2"]
    assert len({axes.images[0].get_clim() for axes in panels}) == 1
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == ["cat", "dog", "cow"]


def test_heat_map_of_nothing_and_of_rows_without_labels_are_refused():
    with pytest.raises(InvalidDataError, match="at least one set"):
        plot_constraint_heatmaps({}, LABELS)
    with pytest.raises(InvalidConstraintsError):
        plot_constraint_heatmaps({"far": Constraints.from_pairs([(0, 99)])}, LABELS)


def test_heat_map_of_a_set_without_pairs_is_empty():
    figure = plot_constraint_heatmaps({"none": Constraints.from_pairs()}, LABELS)
    figure.draw_without_rendering()
    assert np.nansum(figure.axes[0].images[0].get_array()) == 0


def test_heat_map_of_a_model_shows_the_constraints_of_its_fit(fitted):
    ours = plot_constraint_heatmaps(fitted).axes[0].images[0].get_array()
    given_apart = plot_constraint_heatmaps({"": fitted.constraints_}, fitted.labels_)
    np.testing.assert_array_equal(ours, given_apart.axes[0].images[0].get_array())
    with pytest.raises(InvalidDataError, match="labels are missing"):
        plot_constraint_heatmaps(fitted.constraints_)


def test_axes_must_be_one_for_each_heat_map():
    from matplotlib.figure import Figure

    figure = Figure()
    pair = Constraints.from_pairs([(0, 3)])
    plot_constraint_heatmaps({"a": pair, "b": pair}, LABELS, ax=figure.subplots(1, 2))
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["a", "b"]
    with pytest.raises(InvalidDataError, match="one axes per panel: 2, got 1 instead"):
        plot_constraint_heatmaps({"a": pair, "b": pair}, LABELS, ax=figure.axes[0])

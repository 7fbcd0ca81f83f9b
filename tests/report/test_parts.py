"""The parts of a report: placement, profiles, images, samples, violated constraints, questions."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from matplotlib.image import imread
from scipy import sparse

from spherepair import Constraints
from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.report.gallery import as_texts, shorten
from spherepair.report.images import find_image_shape, make_sprite, png_uri
from spherepair.report.kept import describe_distances, pick_violated
from spherepair.report.placement import Placement, place_rows
from spherepair.report.points import LEAST_OF_A_CLUSTER, sample_rows
from spherepair.report.profiles import profile_columns
from spherepair.report.projection import disc_map, pack_discs
from spherepair.report.questions import choose_questions


def pixels_of(uri):
    picture = imread(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
    return np.round(255 * np.asarray(picture)).astype(int)


def test_sureness_is_one_on_the_centre_zero_between_and_negative_beyond():
    centers = np.array([[0.0, 0], [4, 0], [0, 40]])
    rows = np.array([[0.0, 0], [2, 0], [3, 0]])
    placed = place_rows(rows, np.zeros(3, dtype=np.int64), centers=centers)
    assert placed.sureness == pytest.approx([1.0, 0.0, -2 / 3])
    assert placed.other.tolist() == [1, 1, 1]
    assert placed.is_borderline.tolist() == [False, True, True]


def test_rows_without_a_cluster_are_not_sure_and_a_single_cluster_is():
    rows = np.array([[0.0, 1], [1, 0]])
    noise = place_rows(rows, np.array([-1, 0]), centers=np.eye(2)[::-1])
    assert (noise.sureness[0], noise.other[0], noise.is_borderline[0]) == (0.0, 0, False)
    single = place_rows(rows, np.array([0, 0]), centers=np.ones((1, 2)))
    assert single.sureness.tolist() == [1.0, 1.0]
    assert single.other.tolist() == [-1, -1]


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_profiles_equal_plain_means(convert):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(loc=1e6, size=(50, 4)) * (rng.random((50, 4)) < 0.5), rng.integers(-1, 3, 50)
    found = profile_columns(convert(X), labels, n_clusters=3)
    assert found.mean == pytest.approx(X.mean(axis=0))
    assert found.spread == pytest.approx(X.std(axis=0))
    for cluster in range(3):
        assert found.cluster_means[cluster] == pytest.approx(X[labels == cluster].mean(axis=0))


def test_spread_of_a_large_and_almost_constant_column_survives():
    X = np.column_stack([1e9 + np.arange(10.0), np.full(10, 7.0)])
    found = profile_columns(X, np.arange(10) % 2, n_clusters=2)
    assert found.spread == pytest.approx([np.arange(10).std(), 0.0])


def test_png_holds_the_very_pixels():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4, 1) * 20
    assert (pixels_of(png_uri(grey)) == grey[:, :, 0]).all()
    coloured = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    assert (pixels_of(png_uri(coloured))[:, :, :3] == coloured).all()


def test_sprite_has_every_image_at_its_place():
    images = np.repeat((17 * (np.arange(70) % 16)).astype(np.uint8), 25).reshape(70, 5, 5, 1)
    sprite = make_sprite(images)
    sheet = pixels_of(sprite.uri)
    for number in (0, 1, 63, 64, 69):
        line, column = divmod(number, sprite.columns)
        tile = sheet[
            line * sprite.height : (line + 1) * sprite.height,
            column * sprite.width : (column + 1) * sprite.width,
        ]
        assert (tile == 17 * (number % 16)).all()


def test_large_images_are_shrunk_for_the_map():
    sprite = make_sprite(np.full((3, 40, 28, 3), 255, dtype=np.uint8))
    assert (sprite.height, sprite.width) == (13, 9)


def test_digits_are_taken_for_images_and_noise_of_a_square_size_is_not(digits):
    found = find_image_shape(digits.X)
    assert (found.height, found.width, found.low, found.high) == (8, 8, 0.0, 16.0)
    assert find_image_shape(sparse.csr_matrix(digits.X)) == found
    assert find_image_shape(np.random.default_rng(0).normal(size=(100, 64))) is None
    assert find_image_shape(digits.X[:, :60]) is None
    assert find_image_shape(digits.X, "none") is None
    assert find_image_shape(digits.X, "4x16").width == 16


@pytest.mark.parametrize(
    ("wanted", "message"), [("9x9", "has 81 values, but rows have 64"), ("big", "got 'big' instead")]
)
def test_wrong_image_size_is_refused(digits, wanted, message):
    with pytest.raises(InvalidParameterError, match=message):
        find_image_shape(digits.X, wanted)


def test_sample_has_wanted_rows_and_some_of_every_cluster():
    labels = np.repeat([0, 1, 2], [9000, 950, 50])
    none = np.zeros(10_000)
    placement = Placement(labels, labels, none, none, 3)
    chosen = sample_rows(placement, count=500, wanted=np.array([17, 9999]))
    assert len(chosen) == 500
    assert {17, 9999} <= set(chosen.tolist())
    assert np.bincount(labels[chosen]).min() >= LEAST_OF_A_CLUSTER
    assert (np.diff(chosen) > 0).all()


def test_discs_never_overlap_and_neighbours_are_drawn_together():
    rng = np.random.default_rng(0)
    radii = rng.uniform(0.25, 1, 25)
    middles = pack_discs(rng.normal(size=(25, 2)), radii, attraction=np.zeros((25, 25)))
    distance = np.linalg.norm(middles[:, None] - middles, axis=2) + np.diag(np.full(25, 99))
    assert (distance > radii[:, None] + radii).all()
    attraction = np.zeros((25, 25))
    attraction[3, 8] = attraction[8, 3] = 1.0
    drawn = pack_discs(rng.normal(size=(25, 2)), radii, attraction=attraction)
    assert np.linalg.norm(drawn[3] - drawn[8]) < 1.5 * (radii[3] + radii[8] + 0.35)


def test_map_puts_sure_rows_into_their_disc_and_a_row_between_clusters_between_the_discs(blobs):
    _, labels, model = blobs
    rows = np.vstack([model.embedding_, [[5.0, 5.0]]])
    placed = place_rows(rows, np.append(labels, 0), centers=model.cluster_centers_)
    places, discs = disc_map(rows, placed, centers=model.cluster_centers_, rows=np.arange(len(rows)))
    away = np.linalg.norm(places - discs[placed.labels, :2], axis=1)
    assert (away[:-1] < discs[placed.labels, 2][:-1]).all()
    assert np.linalg.norm(places[-1] - (discs[0, :2] + discs[1, :2]) / 2) < 0.6


def test_map_of_equal_rows_is_finite():
    rows = np.ones((5, 3))
    placed = place_rows(rows, np.zeros(5, dtype=np.int64), centers=np.ones((1, 3)))
    places, _ = disc_map(rows, placed, centers=np.ones((1, 3)), rows=np.arange(5))
    assert np.isfinite(places).all()


def test_constraints_broken_most_clearly_come_first():
    embedding = np.array([[0.0, 0], [0.1, 0], [5, 0], [9, 0]])
    pairs = Constraints.from_pairs(must_link=[(0, 2), (0, 3), (0, 1)], cannot_link=[(2, 3), (0, 3)])
    broken = pick_violated(embedding, np.array([0, 0, 1, 1]), constraints=pairs, limit=2)
    assert list(zip(broken.left.tolist(), broken.right.tolist(), strict=True)) == [(0, 3), (0, 2)]
    assert broken.is_must_link.all()


def test_distances_are_angles_on_the_sphere_only():
    left, right = np.array([0]), np.array([1])
    assert describe_distances(np.eye(2), left, right) == ["90° apart"]
    assert describe_distances(3 * np.eye(2), left, right) == ["distance 4.24"]


def test_questions_are_new_and_about_borders_gaps_and_thin_clusters(blobs):
    _, labels, model = blobs
    rows = np.vstack([model.embedding_, [[5.0, 4.9]]])
    placed = place_rows(rows, np.append(labels, 0), centers=model.cluster_centers_)
    pairs = Constraints.from_pairs(cannot_link=[(0, 1), (0, 2)])
    asked = choose_questions(rows, placed, centers=model.cluster_centers_, constraints=pairs, count=99)
    ends = [frozenset((question.left, question.right)) for question in asked]
    assert len(set(ends)) == len(ends)
    assert frozenset((0, 1)) not in ends
    assert (asked[0].left, placed.labels[asked[0].right]) == (90, 1)
    apart = [question for question in asked if "no cannot-link" in question.reason]
    assert [{*placed.labels[[q.left, q.right]].tolist()} for q in apart] == [{1, 2}]
    thin = [question for question in asked if "no must-links" in question.reason]
    assert [placed.labels[q.left] == placed.labels[q.right] for q in thin] == [True] * 3
    assert (
        len(choose_questions(rows, placed, centers=model.cluster_centers_, constraints=pairs, count=2)) == 2
    )


def test_texts_of_any_kind_become_strings_and_must_fit_the_rows():
    assert as_texts(["a", None, 3], 3, what="texts") == ["a", "", "3"]
    with pytest.raises(InvalidDataError, match="ids must have one entry for each of the 4 rows, got 3"):
        as_texts(np.arange(3), 4, what="ids")


def test_long_texts_are_cut_at_a_word():
    assert shorten("word " * 100, 12) == "word word …"
    assert shorten("x" * 50, 10) == "x" * 10 + " …"
    assert shorten(" \n ") == "(empty)"

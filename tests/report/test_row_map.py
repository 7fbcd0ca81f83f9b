"""The map: which rows are drawn, and where."""

from __future__ import annotations

import base64
import io

import numpy as np
from matplotlib.image import imread

from spherepair.report.cluster_cards import Membership, measure_membership
from spherepair.report.row_map import LEAST_OF_A_CLUSTER, disc_map, make_sprite, pack_discs, rows_on_map


def pixels_of(uri):
    picture = imread(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
    return np.round(255 * np.asarray(picture)).astype(int)


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


def test_sample_has_wanted_rows_and_some_of_every_cluster():
    labels = np.repeat([0, 1, 2], [9000, 950, 50])
    none = np.zeros(10_000)
    membership = Membership(labels, labels, none, none, 3)
    chosen = rows_on_map(membership, count=500, wanted=np.array([17, 9999]))
    assert len(chosen) == 500
    assert {17, 9999} <= set(chosen.tolist())
    assert np.bincount(labels[chosen]).min() >= LEAST_OF_A_CLUSTER
    assert (np.diff(chosen) > 0).all()


def test_discs_never_overlap_and_neighbors_are_drawn_together():
    rng = np.random.default_rng(0)
    radii = rng.uniform(0.25, 1, 25)
    middles = pack_discs(rng.normal(size=(25, 2)), radii, attraction=np.zeros((25, 25)))
    distance = np.linalg.norm(middles[:, None] - middles, axis=2) + np.diag(np.full(25, 99))
    assert (distance > radii[:, None] + radii).all()
    attraction = np.zeros((25, 25))
    attraction[3, 8] = attraction[8, 3] = 1.0
    drawn = pack_discs(rng.normal(size=(25, 2)), radii, attraction=attraction)
    assert np.linalg.norm(drawn[3] - drawn[8]) < 1.5 * (radii[3] + radii[8] + 0.35)


def test_map_puts_clear_rows_into_their_disc_and_a_row_between_clusters_between_the_discs(blobs):
    _, labels, model = blobs
    rows = np.vstack([model.embedding_, [[5.0, 5.0]]])
    membership = measure_membership(rows, np.append(labels, 0), centers=model.cluster_centers_)
    places, discs = disc_map(rows, membership, centers=model.cluster_centers_, rows=np.arange(len(rows)))
    away = np.linalg.norm(places - discs[membership.labels, :2], axis=1)
    assert (away[:-1] < discs[membership.labels, 2][:-1]).all()
    assert np.linalg.norm(places[-1] - (discs[0, :2] + discs[1, :2]) / 2) < 0.6


def test_map_of_equal_rows_is_finite():
    rows = np.ones((5, 3))
    membership = measure_membership(rows, np.zeros(5, dtype=np.int64), centers=np.ones((1, 3)))
    places, _ = disc_map(rows, membership, centers=np.ones((1, 3)), rows=np.arange(5))
    assert np.isfinite(places).all()

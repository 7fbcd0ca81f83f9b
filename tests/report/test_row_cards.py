"""How rows are shown: images, texts and numbers."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from matplotlib.image import imread
from scipy import sparse

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.report.row_cards import as_texts, find_image_shape, png_uri, shorten


def pixels_of(uri):
    picture = imread(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
    return np.round(255 * np.asarray(picture)).astype(int)


def test_png_holds_the_very_pixels():
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4, 1) * 20
    assert (pixels_of(png_uri(gray)) == gray[:, :, 0]).all()
    colored = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    assert (pixels_of(png_uri(colored))[:, :, :3] == colored).all()


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


def test_texts_of_any_kind_become_strings_and_must_fit_the_rows():
    assert as_texts(["a", None, 3], 3, what="texts") == ["a", "", "3"]
    with pytest.raises(InvalidDataError, match="ids must have one entry for each of the 4 rows, got 3"):
        as_texts(np.arange(3), 4, what="ids")


def test_long_texts_are_cut_at_a_word():
    assert shorten("word " * 100, 12) == "word word …"
    assert shorten("x" * 50, 10) == "x" * 10 + " …"
    assert shorten(" \n ") == "(empty)"

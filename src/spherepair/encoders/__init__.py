"""Texts, pictures and tables as people have them, turned into rows of numbers.

Each encoder is a scikit-learn transformer. ``SpherePair(encoder=TextEncoder())`` takes texts wherever it
takes rows, and saves the encoder with the model.
"""

from spherepair.encoders.image import ImageEncoder
from spherepair.encoders.saving import pack_encoder, unpack_encoder
from spherepair.encoders.table import TableEncoder
from spherepair.encoders.text import TextEncoder

__all__ = ["ImageEncoder", "TableEncoder", "TextEncoder", "pack_encoder", "unpack_encoder"]

"""A messy table, texts of two topics and small pictures; nothing is kept outside the folder of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

CARD = (
    "my card was stolen yesterday",
    "the card is lost",
    "somebody took my bank card",
    "block this card now",
)
LOAN = (
    "how do I get a loan",
    "what is the rate of a loan",
    "loan for a new house",
    "can I pay the loan back",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.setenv("SPHEREPAIR_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def texts() -> list[str]:
    return [f"{text} {number}" for number in range(10) for text in (*CARD, *LOAN)]


@pytest.fixture
def table() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 120
    return pd.DataFrame(
        {
            "age": [None, *rng.integers(18, 80, n - 1)],
            "income": rng.lognormal(10, 3, n),
            "city": [*rng.choice(["Rome", "Oslo", "Bonn"], n - 1), None],
            "zip": rng.choice([f"{code:05d}" for code in range(50)], n),
            "since": ["N/A", *pd.date_range("2020-01-01", periods=n - 1).strftime("%d/%m/%Y")],
            "vip": rng.choice([True, False], n),
            "same": "x",
            "nothing": [None] * n,
            "email": [f"person{row}@example.org" for row in range(n)],
            "street": rng.choice([f"{word} street" for word in map(str, range(60))], n),
            "note": [f"a note about thing {row} and more" for row in range(n)],
        }
    )


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six red and six blue pictures of 40 x 30 pixels, in two folders."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for name, channel in (("red", 0), ("blue", 2)):
        (folder / name).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 60, size=(30, 40, 3), dtype=np.uint8)
            pixels[..., channel] += 180
            image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder

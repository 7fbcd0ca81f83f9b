"""The example of CONTRIBUTING.md, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import make_blobs

from spherepair import Constraints
from spherepair.metrics import clustering_accuracy

TEXT = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture
def example() -> dict[str, Any]:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "kcl"}
    exec(compile(code, str(TEXT), "exec"), names)
    return names


def test_the_smallest_method_learns_and_predicts(example: dict[str, Any]) -> None:
    X, y = make_blobs(200, centers=3, random_state=0)
    pairs = Constraints.from_labels(y, 600, random_state=0)
    settings = {"hidden_dims": (32,), "max_epochs": 60, "stopping": "fixed", "batch_size": 64}
    model = example["KCL"](3, random_state=0, progress=False, **settings).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.predict(X)) > 0.9
    assert example["KCL"].paper(3).scaling == "none"


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:src/|tests/)?\w+/[\w/]+\.py)`", TEXT.read_text("utf-8"))))
)
def test_every_file_it_names_is_there(path: str) -> None:
    root = TEXT.parent
    assert any((folder / path).is_file() for folder in (root, root / "src" / "spherepair"))

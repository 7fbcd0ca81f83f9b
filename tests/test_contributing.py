"""The examples for contributors run as they stand on the page, and every file that is named is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from spherepair import Constraints, SpherePair
from spherepair.metrics import clustering_accuracy
from spherepair.training.batches import Batch

ROOT = Path(__file__).parents[1]
DEVELOPMENT = ROOT / "docs" / "development"
ADDING = DEVELOPMENT / "adding-a-method.md"
PAGES = (ROOT / "CONTRIBUTING.md", ADDING, DEVELOPMENT / "architecture.md")


@pytest.fixture
def examples() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "examples"}
    for code in re.findall(
        r"^```python\n(.*?)```", ADDING.read_text(encoding="utf-8"), flags=re.DOTALL | re.M
    ):
        exec(compile(code, str(ADDING), "exec"), names)
    return names


def test_the_smallest_method_learns_and_predicts(examples: dict[str, Any]) -> None:
    X, y = make_blobs(200, centers=3, random_state=0)
    pairs = Constraints.from_labels(y, 600, random_state=0)
    settings = {"hidden_dims": (32,), "max_epochs": 60, "stopping": "fixed", "batch_size": 64}
    model = examples["KCL"](3, random_state=0, progress=False, **settings).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.predict(X)) > 0.9
    assert examples["KCL"].paper(3).scaling == "none"


def test_the_term_pushes_each_row_from_the_next(examples: dict[str, Any]) -> None:
    rows, none = torch.eye(3), torch.zeros(0)
    batch = Batch(rows, none.bool(), none, torch.tensor([1.0, 1.0, 0.0]), torch.arange(3))
    group = examples["Repulsion"](weight=0.1).pairs(batch, rows)
    np.testing.assert_allclose(group.share, [0.05, 0.05, 0.0])
    assert not group.is_must_link.any()
    assert group.right.tolist() == rows[[2, 0, 1]].tolist()


def test_the_term_takes_part_in_a_fit(examples: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    term = examples["Repulsion"](weight=0.1)
    monkeypatch.setattr("spherepair.estimators.spherepair.build_terms", lambda *_, **__: {"repulsion": term})
    X, y = make_blobs(200, centers=3, random_state=0)
    model = SpherePair(3, hidden_dims=(8,), pretraining=None, max_epochs=2, random_state=0, progress=False)
    model.fit(X, constraints=Constraints.from_labels(y, 300, random_state=0))
    assert all(record["repulsion"] > 0 for record in model.history_)


def named_files() -> list[str]:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    return sorted(set(re.findall(r"`([\w/-]+\.(?:py|toml|md|lock|csv))`", text)) - {"pairs.csv"})


@pytest.mark.parametrize("path", named_files())
def test_every_file_it_names_is_there(path: str) -> None:
    package = ROOT / "src" / "spherepair"
    assert any((folder / path).is_file() for folder in (ROOT, package, package / "clustering"))


def test_every_function_is_in_the_file_that_the_architecture_names() -> None:
    text = (DEVELOPMENT / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)` in `([\w/]+\.py)`", text)
    assert len(named) > 10
    for name, path in named:
        code = (ROOT / "src" / "spherepair" / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(?:def|class) {name}\b", code, flags=re.M), f"{path} has no {name}"


def test_files_and_packages_are_small_enough_to_be_read() -> None:
    for folder in {path.parent for path in (ROOT / "src").rglob("*.py")}:
        modules = list(folder.glob("*.py"))
        assert len(modules) <= 14, f"{folder} has {len(modules)} modules"
        for module in modules:
            n_lines = len(module.read_text(encoding="utf-8").splitlines())
            assert n_lines <= 400, f"{module} has {n_lines} lines"


def test_no_two_files_have_the_same_name() -> None:
    names = [path.name for path in (ROOT / "src").rglob("*.py") if path.name != "__init__.py"]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)

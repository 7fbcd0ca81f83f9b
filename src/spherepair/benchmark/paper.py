"""The paper's numbers: its main table, Ward table, table of embedding sizes, and times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

TABLES = ("main", "ward", "embedding_dim")


@dataclass(frozen=True)
class PaperCell:
    """Which number of a table: percent, mean of five runs."""

    dataset: str
    n_pairs: int
    method: str
    metric: str = "ACC"
    part: str = "test"
    embedding_dim: int | None = None


def paper_score(table: str, cell: PaperCell) -> float | None:
    """A score in percent as the paper prints it; ``None`` where it prints none.

    Examples
    --------
    >>> paper_score("main", PaperCell("mnist", 10_000, "SpherePair"))
    97.0
    >>> paper_score("main", PaperCell("digits", 10_000, "SpherePair")) is None
    True
    """
    if table not in TABLES:
        return None
    # Methods without an embedding have one row, whatever its size.
    sizes = (cell.embedding_dim, None) if table == "embedding_dim" else (None,)
    for size in sizes:
        found = _scores(table).get((cell.dataset, cell.n_pairs, cell.method, size, cell.metric))
        if found is not None:
            return found[cell.part]
    return None


def paper_seconds(what: str, name: str, dataset: str) -> Any:
    """Seconds on one Tesla V100 with 10k pairs: of ``training``, ``clustering`` or ``n_clusters``.

    Examples
    --------
    >>> paper_seconds("training", "SpherePair", "mnist")
    2062
    >>> paper_seconds("clustering", "SpherePair", "mnist")["ward"]
    83
    """
    return _content()[f"{what}_seconds"].get(name, {}).get(dataset)


def paper_source() -> str:
    """Which paper this is, and the units of its numbers."""
    return f"{_content()['source']} ({_content()['unit']})"


@cache
def _content() -> dict[str, Any]:
    text = (resources.files("spherepair.benchmark") / "paper.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


@cache
def _scores(table: str) -> dict[tuple[Any, ...], dict[str, float]]:
    names = _content()["columns"]
    rows = [dict(zip(names, row, strict=True)) for row in _content()[table]]
    keys = ("dataset", "n_pairs", "method", "embedding_dim", "metric")
    return {tuple(row[key] for key in keys): {"train": row["train"], "test": row["test"]} for row in rows}

"""``spherepair datasets``: the benchmarks, where they are, and how to get the rest."""

from __future__ import annotations

from dataclasses import asdict

from rich import box
from rich.table import Table

from spherepair.cli.options import JsonOption
from spherepair.cli.reporting import as_text, reporting
from spherepair.datasets import DatasetInfo, list_datasets

NAME = "datasets"
EXAMPLE = "Example: spherepair datasets --json"


def command(as_json: JsonOption = False) -> None:
    """List the data sets of the benchmarks and how to get those that are not here."""
    with reporting(NAME, as_json=as_json) as report:
        found = list_datasets()
        missing = [f"{info.name}: {info.how_to_get}" for info in found if not info.available]
        text = [as_text(_table(found))]
        if missing:
            text += ["", "How to get the rest:", *missing]
        report.finish({"datasets": [asdict(info) for info in found]}, text)


def _table(found: list[DatasetInfo]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "rows", "features", "classes", "paper", "here"):
        table.add_column(heading, justify="right" if heading in {"rows", "features", "classes"} else "left")
    for info in found:
        table.add_row(
            info.name,
            f"{info.rows:,}",
            f"{info.features:,}",
            str(info.classes),
            "yes" if info.in_paper else "",
            info.location or "no",
        )
    return table

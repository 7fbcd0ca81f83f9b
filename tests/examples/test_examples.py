"""Every example runs as a script, without a warning, finds what it says it finds, and ends in a figure."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: A line that each example prints, with the number that has to be above the limit beside it.
FINDS = {
    "comparing_methods": (r"SpherePair +300 +([\d.]+)%", 85.0),
    "first_steps": (r"accuracy on all wines: ([\d.]+)%", 90.0),
    "imbalance": (r"SpherePair.* ([\d.]+)%\n", 85.0),
    "sphere_animation": (r"satisfies ([\d.]+)% of the pairs", 95.0),
    "text_tfidf": (r"accuracy: ([\d.]+)%", 85.0),
    "unknown_k": (r"^(\d+) clusters", 4.0),
    "unseen_data": (r"unseen rows: +([\d.]+)%", 80.0),
}


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """Figures that a script shows; there is no screen here."""
    figures = []
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: figures.extend(map(plt.figure, plt.get_fignums())))
    yield figures
    plt.close("all")


@pytest.mark.parametrize("name", sorted(FINDS))
def test_example_runs_and_finds_what_it_shows(name, tmp_path, monkeypatch, capsys, shown):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *(["."] if name == "sphere_animation" else [])])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    pattern, least = FINDS[name]
    found = re.search(pattern, capsys.readouterr().out, flags=re.MULTILINE)
    assert found is not None
    assert float(found[1]) > least
    assert shown
    assert all(axes.has_data() for axes in shown[-1].axes)
    assert sorted(path.name for path in tmp_path.iterdir()) == (
        ["sphere.gif"] if name == "sphere_animation" else []
    )


def test_every_example_is_tested_listed_and_short():
    scripts = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert scripts == sorted(FINDS)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name in scripts:
        assert f"]({name}.py)" in listed
        assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 65


@pytest.mark.parametrize("name", sorted(FINDS))
def test_example_begins_with_a_title_for_the_gallery(name):
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))) or ""
    title, underline, *_ = text.splitlines()
    assert underline == "=" * len(title)

"""Every example runs as a script, without a warning, and finds what it says it finds."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: A line that each example prints, with the number that has to be above the limit beside it.
FINDS = {
    "comparing_methods": (r"SpherePair +([\d.]+)%", 85.0),
    "first_steps": (r"accuracy on all wines: ([\d.]+)%", 90.0),
    "imbalance": (r"SpherePair.* ([\d.]+)%\n", 85.0),
    "sphere_animation": (r"satisfies ([\d.]+)% of the pairs", 95.0),
    "text_tfidf": (r"accuracy: ([\d.]+)%", 85.0),
    "unknown_k": (r"^(\d+) clusters", 4.0),
    "unseen_data": (r"unseen rows: +([\d.]+)%", 80.0),
}


def run(name, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(folder)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


@pytest.mark.parametrize("name", sorted(FINDS))
def test_example_runs_and_finds_what_it_shows(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(name, tmp_path / "out" if name == "sphere_animation" else tmp_path, monkeypatch)
    pattern, least = FINDS[name]
    found = re.search(pattern, capsys.readouterr().out, flags=re.MULTILINE)
    assert found is not None
    assert float(found[1]) > least


def test_every_example_is_tested_listed_and_short():
    scripts = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert scripts == sorted(FINDS)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name in scripts:
        assert f"]({name}.py)" in listed
        assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60

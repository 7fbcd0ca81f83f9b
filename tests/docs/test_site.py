"""The site builds without a warning, and the reference has every public name with an example."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import warnings
from contextlib import redirect_stderr
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
MODULES = (
    "spherepair",
    "spherepair.baselines",
    "spherepair.benchmark",
    "spherepair.constraints",
    "spherepair.datasets",
    "spherepair.errors",
    "spherepair.losses",
    "spherepair.metrics",
    "spherepair.networks",
    "spherepair.plots",
    "spherepair.report",
    "spherepair.theory",
)


def test_site_builds_without_a_warning(tmp_path, fork):
    """The gallery's pages are made but its scripts not run; ``make docs`` does that, test_examples.py too."""
    ignored = shutil.ignore_patterns("_build", "gallery", "generated", "__pycache__")
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    said = tmp_path / "said"
    building = fork(_build_site, tmp_path, said)
    building.join(500)
    assert (building.exitcode, said.read_text(encoding="utf-8")) == (0, "")


def _build_site(folder: Path, said: Path) -> None:
    from sphinx.cmd.build import main

    os.chdir(folder)
    os.environ["SPHEREPAIR_SKIP_GALLERY"] = "1"
    # As in a fresh interpreter, where warnings are no errors.
    warnings.resetwarnings()
    for kind in (DeprecationWarning, PendingDeprecationWarning):
        warnings.simplefilter("ignore", kind)
    with said.open("w", encoding="utf-8") as stream, redirect_stderr(stream):
        code = main(["-W", "--keep-going", "-q", "-b", "dummy", "docs", "out"])
    os._exit(code)


def public_names(module: ModuleType) -> list[str]:
    """``__all__``, or the classes and functions that a module without it defines."""
    if hasattr(module, "__all__"):
        return [
            name
            for name in module.__all__
            if inspect.isclass(getattr(module, name)) or callable(getattr(module, name))
        ]
    own = (item for item in vars(module).items() if getattr(item[1], "__module__", "") == module.__name__)
    return [name for name, thing in own if callable(thing) and not name.startswith("_")]


PUBLIC = [(name, thing) for name in MODULES for thing in public_names(importlib.import_module(name))]


def page_of(module: str) -> str:
    return (REFERENCE / f"{module.rpartition('.')[2]}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_public_name_is_in_the_reference(module, name):
    homes = {module, "spherepair"}
    assert any(re.search(rf"^   {name}$", page_of(home), flags=re.MULTILINE) for home in homes)


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_public_name_has_an_example(module, name):
    """In its docstring, in that of one of its methods, or on its page."""
    thing = getattr(importlib.import_module(module), name)
    texts = [inspect.getdoc(thing) or ""]
    if inspect.isclass(thing):
        texts += [
            inspect.getdoc(member) or "" for key, member in vars(thing).items() if not key.startswith("_")
        ]
    examples = "".join(re.findall(r"```python\n(.*?)```", page_of(module), flags=re.DOTALL))
    assert any(">>> " in text for text in texts) or re.search(rf"\b{name}\b", examples)

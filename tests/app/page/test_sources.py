"""The page that is shipped is the one that page/ builds, and it asks nobody else for anything."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "page"
BUILT = files("spherepair.app") / "page"


def hash_of_sources() -> str:
    """The same as ``hashOfSources`` in page/build.mjs."""
    names = [path.relative_to(SOURCES).as_posix() for path in (SOURCES / "src").rglob("*") if path.is_file()]
    hash = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package.json", "package-lock.json"]):
        hash.update(f"{name}\n".encode() + (SOURCES / name).read_bytes())
    return hash.hexdigest()


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources of the page are not here")
def test_page_is_built_from_the_sources_beside_it():
    html = (BUILT / "index.html").read_text(encoding="utf-8")
    found = re.search(r'name="spherepair-sources" content="(\w+)"', html)
    assert found, "index.html says nothing of its sources"
    assert found.group(1) == hash_of_sources(), "the page is older than its sources: make page"


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources of the page are not here")
def test_packages_of_the_page_have_exact_versions_and_no_address():
    package = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))
    versions = package["dependencies"] | package["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
    assert "resolved" not in (SOURCES / "package-lock.json").read_text(encoding="utf-8")


def test_page_has_no_inline_script_or_style_and_loads_only_its_own_files():
    html = (BUILT / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="([^"]*)"', html) == ["data:,", "/assets/app.css", "/assets/app.js"]
    assert re.findall(r"<script[^>]*>([^<]*)</script>", html) == [""]
    assert "style=" not in html
    assert "<style" not in html


def test_page_never_makes_code_of_text():
    script = (BUILT / "assets" / "app.js").read_text(encoding="utf-8")
    assert not re.search(r"\beval\(|\bFunction\(|document\.write|insertAdjacentHTML", script)


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources of the page are not here")
def test_page_never_makes_markup_of_text():
    for path in (SOURCES / "src").rglob("*.ts*"):
        assert "InnerHTML" not in path.read_text(encoding="utf-8").replace("inner", "Inner"), path.name


def test_licenses_of_what_is_bundled_are_shipped():
    licenses = (BUILT / "assets" / "licenses.txt").read_text(encoding="utf-8")
    assert all(name in licenses for name in ("kdbush", "preact", "twgl.js"))

"""Links lead somewhere, and commands on the pages exist with the options they are given."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from spherepair.cli.app import prepare

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs/guide", "docs/reference", "docs/development", "research")
PAGES = sorted(
    [*ROOT.glob("*.md"), ROOT / "docs/index.md", ROOT / "examples/README.md"]
    + [page for folder in FOLDERS for page in (ROOT / folder).glob("*.md")]
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
#: Made by ``make docs``.
GENERATED = ROOT / "docs" / "gallery" / "index.rst"


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """What GitHub and MyST call the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(text_of(page)):
        if target.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        is_missing = there != GENERATED and not there.exists()
        if is_missing or (anchor and anchor not in anchors(there)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page):
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#one) [b](#two) [c](page.md) [d](gone.md)\n", encoding="utf-8")
    assert list(broken_links(page)) == ["#two", "gone.md"]


def commands() -> list[str]:
    """Lines of code blocks, and code inside lines, that begin like a command of ours."""
    found: set[str] = set()
    for page in PAGES:
        text = text_of(page)
        lines = [
            line
            for block in re.findall(r"```\n(.*?)```", text, flags=re.DOTALL)
            for line in block.splitlines()
        ]
        lines += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        ours = (
            re.search(r"(?:^|\s)((?:spherepair|python bench/)\S*\s.*)$", line.split(" #")[0])
            for line in lines
        )
        found |= {match[1].strip() for match in ours if match and "COMMAND" not in match[1]}
    return sorted(found)


@cache
def help_of(*command: str) -> str:
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(text):
        patch.setenv("COLUMNS", "300")
        assert prepare([*command, "--help"])() == 0
    return text.getvalue()


def options(words: list[str]) -> list[str]:
    return [word.split("=")[0].strip("[]") for word in words if word.startswith(("--", "[--"))]


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("spherepair")])
def test_a_command_of_ours_has_these_options(command):
    _, *words = shlex.split(command)
    name = words[: 2 if words[0] == "bench" else 1]
    for option in options(words):
        assert re.search(rf"{option}\b", help_of(*(word.rstrip(",") for word in name)))


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("python bench/")])
def test_a_script_of_bench_has_these_options(command):
    _, script, *words = shlex.split(command)
    source = text_of(ROOT / script)
    for option in options(words):
        assert f'"{option}"' in source


def test_readme_is_short_and_pages_name_no_commits():
    assert len(text_of(ROOT / "README.md").split()) <= 450
    for page in PAGES:
        assert not re.findall(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b", text_of(page))

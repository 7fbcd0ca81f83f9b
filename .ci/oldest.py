"""Print what ``make test-oldest`` installs: the oldest versions in pyproject.toml, and tools to test with.

Torch is that of requirements.lock: its oldest version has no CPU build on every machine. ``--torch`` asks for
the oldest one all the same, as the workflow does.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What installs and tests the package; no oldest version of these is of interest.
TOOLS = (
    "editables",
    "hatchling",
    "httpx",
    "hypothesis",
    "playwright",
    "pytest",
    "pytest-xdist",
    "schemathesis",
)
#: Of the development extra, packages whose tables users pass in.
TABLES = ("pandas", "polars")


def oldest() -> dict[str, str]:
    """The lower bound of every package that the library uses: ``numpy>=1.26`` gives ``1.26``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = [
        *project["dependencies"],
        *(line for name in extras if name not in {"dev", "docs"} for line in extras[name]),
    ]
    used += [line for line in extras["dev"] if line.startswith(TABLES)]
    found = (re.match(r"([\w-]+(?:\[\w+\])?)>=([\w.]+)$", line) for line in used)
    return dict(match.groups() for match in found if match)


def locked() -> dict[str, str]:
    """The exact versions of both lock files."""
    text = "\n".join(
        (ROOT / name).read_text(encoding="utf-8") for name in ("requirements.lock", "requirements-dev.lock")
    )
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, flags=re.MULTILINE))


exact = locked()
versions = oldest() | {name: exact[name] for name in TOOLS}
if "--torch" not in sys.argv[1:]:
    versions["torch"] = exact["torch"]
print("\n".join(f"{name}=={version}" for name, version in sorted(versions.items())))

"""What the package is made of: licenses of the locked packages, a bill of materials, and newer versions.

    python .ci/supply_chain.py licenses          # a table; exit code 1 if one is not on the list below
    python .ci/supply_chain.py sbom > sbom.json  # CycloneDX
    python .ci/supply_chain.py raise             # write the installed versions into the lock files

Run with the Python of an environment in which the locked packages are installed, as ``make licenses`` and
``make sbom`` do.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK_FILES = ("requirements.lock", "requirements-dev.lock")
#: Words of licenses that ask for no more than naming the authors, or leave our code alone (MPL, LGPL).
ALLOWED = (
    *("MIT", "BSD", "Apache", "PSF", "Python Software Foundation", "ISC", "HPND", "CMU-Jr", "Unlicense"),
    *("MPL", "Mozilla Public License", "zlib", "0BSD", "CC0", "Public Domain", "LGPL", "Zope", "OFL"),
)
#: Packages that do not say it in their metadata; looked up by hand.
KNOWN = {"axe-playwright-python": "MIT"}


def locked(name: str) -> dict[str, str]:
    """Exact versions of a lock file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, flags=re.MULTILINE))


def license_of(package: str) -> str:
    """What the metadata of an installed package says, in one line; empty where it says nothing."""
    try:
        found = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return "not installed"
    classifiers = [
        line.rsplit(" :: ", 1)[1]
        for line in found.get_all("Classifier") or ()
        if line.startswith("License ::")
    ]
    said = [found.get("License-Expression"), "; ".join(classifiers), found.get("License"), KNOWN.get(package)]
    text = next((words for words in said if words), "")
    return " ".join(text.split())[:60]


def is_allowed(license_name: str) -> bool:
    """Whether a license is on the list, or its package is for another system."""
    return license_name == "not installed" or any(word.lower() in license_name.lower() for word in ALLOWED)


def print_licenses() -> int:
    """A table of all locked packages; 1 if a license is not on the list."""
    refused = 0
    for name in LOCK_FILES:
        for package, version in locked(name).items():
            found = license_of(package)
            mark = "" if is_allowed(found) else "   NOT ON THE LIST"
            refused += not is_allowed(found)
            print(f"{package}=={version}\t{found or 'says nothing'}{mark}")
    return int(refused > 0)


def print_sbom() -> int:
    """The packages of users as a bill of materials in CycloneDX's JSON."""
    components = [
        {
            "type": "library",
            "name": package,
            "version": version,
            "purl": f"pkg:pypi/{package.lower()}@{version}",
            "licenses": [{"license": {"name": license_of(package) or "unknown"}}],
        }
        for package, version in locked(LOCK_FILES[0]).items()
    ]
    version = re.search(
        r'__version__ = "([^"]+)"', (ROOT / "src/spherepair/__init__.py").read_text(encoding="utf-8")
    )
    product = {"type": "library", "name": "spherepair", "version": version[1] if version else "unknown"}
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": product}}
    print(json.dumps({**bill, "components": components}, indent=2))
    return 0


def raise_versions() -> int:
    """Write the versions that are installed here into the lock files; torch is pinned and stays."""
    for name in LOCK_FILES:
        path = ROOT / name
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(map(_raised, lines)) + "\n", encoding="utf-8")
    return 0


def _raised(line: str) -> str:
    found = re.match(r"([\w.-]+)==([^\s;]+)(.*)", line)
    if found is None or found[1] == "torch":
        return line
    try:
        return f"{found[1]}=={metadata.version(found[1])}{found[3]}"
    except metadata.PackageNotFoundError:
        return line


if __name__ == "__main__":
    sys.exit({"licenses": print_licenses, "sbom": print_sbom, "raise": raise_versions}[sys.argv[1]]())

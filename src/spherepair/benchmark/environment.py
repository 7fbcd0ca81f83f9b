"""What a result was made with: protocol, versions, device and commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

from spherepair.version import __version__

#: Part of the key of every run and of every shared autoencoder: with another number those in a folder of
#: results count for nothing and are made again. To be raised by hand in the commit with which the same run
#: comes out otherwise (a loss, a default, a stopping rule, how pairs are drawn or data prepared, what is
#: measured); otherwise tables would mix the results of two codes. What changes numbers by rounding alone, or
#: not at all, leaves it.
PROTOCOL = 2
#: Likewise for the runs of one estimator (or protocol of one) alone, whose defaults have changed, and for
#: those on one data set, which is prepared otherwise.
REVISIONS = {
    "SpherePair": 6, "CIDEC": 4, "SDEC": 4, "AutoEmbedder": 4,
    "SpherePair.paper": 1, "CIDEC.paper": 1, "SDEC.paper": 1, "AutoEmbedder.paper": 1,
}  # fmt: skip
DATA_REVISIONS = {"reuters_r8": 1, "20newsgroups": 1, "banking77": 1}
#: Where the sources have no history of their own (a copy on another machine): which commit they are.
COMMIT_VARIABLE = "SPHEREPAIR_COMMIT"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "safetensors")


def describe_environment() -> dict[str, object]:
    """Protocol, versions, device and commit as plain values.

    Examples
    --------
    >>> sorted(describe_environment())
    ['commit', 'device', 'protocol', 'threads', 'versions']
    """
    return {
        "protocol": PROTOCOL,
        "versions": {"spherepair": __version__, "python": platform.python_version(), **_versions()},
        "device": device_name(),
        "threads": torch.get_num_threads(),
        "commit": commit(),
    }


def device_name() -> str:
    """The GPU's name, or the kind of processor."""
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"processor ({platform.machine()})"


def commit() -> str | None:
    """The commit of the sources: of their checkout, else as the variable says, else None.

    A checkout whose sources were changed since names no commit, so there the variable comes first; "+"
    marks such a checkout without it.
    """
    here, stated = Path(__file__), os.environ.get(COMMIT_VARIABLE) or None
    # Tracked: a package installed inside somebody else's checkout has not got that commit.
    if _git("ls-files", "--error-unmatch", here.name) is not None:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1]))
        if head is not None:
            return (stated or f"{head}+") if changed else head
    return stated


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

"""Small charts for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar_chart(
    names: Sequence[str], values: Sequence[float], *, remarks: dict[int, str] | None = None, width: int = 40
) -> list[str]:
    """Horizontal bars from zero, one line each.

    Parameters
    ----------
    names : sequence of str
    values : sequence of float
        Negative ones have no bar.
    remarks : dict of int to str, optional
        Text behind the bar at a position.
    width : int
        Characters of the longest bar.

    Examples
    --------
    >>> for line in bar_chart(["a", "b"], [1.0, 0.5], remarks={1: "half"}, width=8):
    ...     print(line)
    a   1.0 ████████
    b   0.5 ████ half
    """
    largest = max([*values, 0.0])
    pad = max(map(len, names), default=0)
    lines = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        length = width * max(value, 0.0) / largest if largest > 0 else 0.0
        remark = f" {remarks[place]}" if remarks and place in remarks else ""
        lines.append(f"{name:>{pad}} {value:5.1f} {_bar(length)}{remark}")
    return lines


def _bar(length: float) -> str:
    if not _can_show_blocks():
        return "#" * round(length)
    whole, eighth = divmod(round(8 * length), 8)
    return "█" * whole + _EIGHTHS[eighth].strip()


def _can_show_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        _EIGHTHS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True

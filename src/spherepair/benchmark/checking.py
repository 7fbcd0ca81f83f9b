"""What may stand in the document of an experiment: its entries, their kinds, and which of them must be there.

A document comes from a person's editor, so whatever is wrong with it is said in one sentence.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spherepair.errors import InvalidParameterError


@dataclass(frozen=True)
class Kind:
    """A kind of entry: in words, by an example, and as a test."""

    words: str
    example: str
    fits: Callable[[Any], bool]


def check_entries(content: Any, kinds: Mapping[str, Kind], *, where: str, needed: Iterable[str] = ()) -> None:
    """Refuse a table with entries that nobody knows, that are missing or of another kind.

    Parameters
    ----------
    content : dict
        As TOML gives it.
    kinds : mapping
        The entries that may be there.
    where : str
        Names the table in the message.
    needed : iterable of str
        The entries that must be there.

    Examples
    --------
    >>> check_entries({"pairs": 100}, EXPERIMENT, where="the experiment")
    Traceback (most recent call last):
        ...
    spherepair.errors.InvalidParameterError: pairs of the experiment must be a list of whole numbers from 1, \
got 100 instead; for instance pairs = [1000, 5000].
    """
    if not isinstance(content, dict):
        raise InvalidParameterError(f"{where} must be a table, got {reprlib.repr(content)} instead.")
    unknown = sorted(set(content) - set(kinds))
    if unknown:
        raise InvalidParameterError(f"{where} has no {unknown[0]!r}; it may have {', '.join(sorted(kinds))}.")
    for name in needed:
        if name not in content:
            raise InvalidParameterError(
                f"{name} is missing in {where}; give it, for instance {name} = {kinds[name].example}."
            )
    for name, value in content.items():
        if not kinds[name].fits(value):
            raise InvalidParameterError(
                f"{name} of {where} must be {kinds[name].words}, got {reprlib.repr(value)} instead; for "
                f"instance {name} = {kinds[name].example}."
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any, *, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    """Whether JSON knows it too: TOML has dates, which no parameter takes and no key can be made of."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int, float))


def _lists(fits: Callable[[Any], bool], *, least: int = 0) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(fits, value))


def _tables(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


_TEXT = Kind("a text", '"..."', _is_text)
_TEXTS = Kind("a list of texts", '["..."]', _lists(_is_text, least=1))
_COUNTS = Kind(
    "a list of whole numbers from 1", "[1000, 5000]", _lists(lambda value: _is_whole(value, least=1))
)
_POSITIONS = Kind("a list of whole numbers from 0", "[0, 1, 2]", _lists(_is_whole, least=1))
_PARAMETERS = Kind("a table of numbers, texts and lists of them", "{ omega = 2.0 }", _tables(_is_plain))

#: Entries of a document.
EXPERIMENT: Mapping[str, Kind] = {
    **dict.fromkeys(("id", "title", "paper", "command", "expected_time", "expected_result"), _TEXT),
    **dict.fromkeys(("layout", "paper_table"), _TEXT),
    **dict.fromkeys(("measure", "metrics", "parts"), _TEXTS),
    **dict.fromkeys(("pairs", "imbalanced"), _COUNTS),
    **dict.fromkeys(("seeds", "levels"), _POSITIONS),
    "datasets": Kind(
        "a list of names or tables",
        '["mnist"]',
        _lists(lambda value: isinstance(value, (str, dict)), least=1),
    ),
    "methods": Kind(
        "a list of tables",
        '[{ label = "SpherePair", estimator = "SpherePair" }]',
        _lists(lambda value: isinstance(value, dict), least=1),
    ),
    "tail_ratios": Kind("a list of numbers", "[0.05, 0.1]", _lists(_is_number, least=1)),
    "sweep": Kind(
        "a table of lists, each with values of a parameter",
        "{ omega = [1.5, 2.0] }",
        _tables(_lists(_is_plain, least=1)),
    ),
    "stand_ins": Kind("a table of texts", '{ reuters_r8 = "Reuters" }', _tables(_is_text)),
}
#: Entries of one of its data sets.
DATASET: Mapping[str, Kind] = {
    "name": _TEXT,
    "label": _TEXT,
    "classes": _POSITIONS,
    "parameters": _PARAMETERS,
}
#: Entries of one of its methods.
METHOD: Mapping[str, Kind] = {
    **dict.fromkeys(("label", "estimator", "paper"), _TEXT),
    "parameters": _PARAMETERS,
    "for_dataset": Kind("a table of tables", "{ mnist = { omega = 2.0 } }", _tables(_tables(_is_plain))),
}

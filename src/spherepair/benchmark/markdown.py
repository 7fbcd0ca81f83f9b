"""Blocks of a report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from spherepair.benchmark.document import Block, Command, Entry, Heading, Picture, Table

#: Markdown has no colours; these marks stand for them.
MARKS = {"below": " ▽", "clearly below": " ▼"}


def to_markdown(blocks: Iterable[Block]) -> str:
    """Render blocks.

    Examples
    --------
    >>> table = Table(("method", "10k"), ((Entry("A"), Entry("9", "best")),))
    >>> print(to_markdown([Heading("Results", 1), table]))
    # Results
    <BLANKLINE>
    | method | 10k |
    |---|---:|
    | A | **9** |
    <BLANKLINE>
    """
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_text(block.text)}"
    if isinstance(block, Command):
        return f"```\n{block.text}\n```"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Picture):
        return f"![{_text(block.caption)}]({block.file})"
    return _text(block.text)


def _table(table: Table) -> str:
    lines = [_line(_text(name) for name in table.header)]
    lines.append("|---|" + "---:|" * (len(table.header) - 1))
    lines += [_line(map(_entry, row)) for row in table.rows]
    caption = f"**{_text(table.caption)}**\n\n" if table.caption else ""
    return caption + "\n".join(lines)


def _entry(entry: Entry) -> str:
    text = _text(entry.text)
    if entry.tone == "missing":
        return f"*{text}*"
    if entry.tone == "best":
        return f"**{text}**"
    return text + MARKS.get(entry.tone, "")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(text: str) -> str:
    """Text that cannot end a table's cell or start markup."""
    for character in "\\`*_<>[]|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())

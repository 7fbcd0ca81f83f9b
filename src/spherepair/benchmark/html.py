"""Blocks of a report as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from html import escape

from spherepair.benchmark.document import Block, Command, Entry, Heading, Picture, Table

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --quiet: #667085; --line: #d8dce3; --paper: #ffffff;
  --below: #fde8cf; --clearly: #f9c5b4; --best: #d9ecf7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --quiet: #9aa3b2; --line: #3a404c;
  --paper: #15181e; --below: #4a3413; --clearly: #5e2417; --best: #16384c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; white-space: nowrap; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--quiet); font-weight: 500; }
td.below { background: var(--below); } td.clearly-below { background: var(--clearly); }
td.best { background: var(--best); font-weight: 600; }
td.missing { color: var(--quiet); font-style: italic; }
pre { background: color-mix(in srgb, var(--line) 40%, transparent); padding: .6rem .8rem; overflow-x: auto; }
figure { margin: 1rem 0; } figure img { max-width: 100%; background: #ffffff; }
figcaption { color: var(--quiet); }
a { color: inherit; } nav ul { padding-left: 1.2rem; }
@media print { body { max-width: none; margin: 0; } h2 { break-before: page; } }
"""
_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}


def to_html(blocks: Iterable[Block], *, title: str) -> str:
    """Render blocks; whatever they say is shown as text, never as markup.

    Examples
    --------
    >>> page = to_html([Heading("1 < 2", 1)], title="Results")
    >>> ">1 &lt; 2</h1>" in page
    True
    """
    listed = list(blocks)
    body = "\n".join([*map(_block, listed[:1]), _contents(listed), *map(_block, listed[1:])])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{_anchor(block)}">{escape(block.text)}</h{block.level}>'
    if isinstance(block, Command):
        return f"<pre><code>{escape(block.text)}</code></pre>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Picture):
        return _picture(block)
    return f"<p>{escape(block.text)}</p>"


def _contents(blocks: list[Block]) -> str:
    """Links to the sections, where there are several."""
    sections = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    if len(sections) < 2:
        return ""
    links = (f'<li><a href="#{_anchor(section)}">{escape(section.text)}</a></li>' for section in sections)
    return f"<nav><ul>{''.join(links)}</ul></nav>"


def _anchor(heading: Heading) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.text.lower()).strip("-")


def _table(table: Table) -> str:
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "\n".join(f"<tr>{''.join(map(_entry, row))}</tr>" for row in table.rows)
    inside = f"{caption}<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody>"
    return f'<div class="scroll"><table>{inside}</table></div>'


def _entry(entry: Entry) -> str:
    kind = f' class="{entry.tone.replace(" ", "-")}"' if entry.tone else ""
    return f"<td{kind}>{escape(entry.text)}</td>"


def _picture(picture: Picture) -> str:
    kind = _KINDS[picture.file[picture.file.rindex(".") :]]
    data = base64.b64encode(picture.content).decode()
    caption = escape(picture.caption)
    image = f'<img src="data:{kind};base64,{data}" alt="{caption}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"

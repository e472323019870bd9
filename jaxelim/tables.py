"""Tables as aligned text, and as HTML for notebooks."""

import html
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDEST = 100
"""Most columns of a line of text."""
_SHORTEST = 8  # most characters that a name keeps in any case
ROWS = 20
"""Most rows of a table in a notebook."""


def shown(value: Any) -> str:
    """A cell's text: numbers have four digits, NaN is a hyphen."""
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def aligned(rows: Any) -> list[str]:
    """Format rows with equal keys as aligned lines of text, the first of them the keys."""
    rows = [{k: shown(v) for k, v in row.items()} for row in rows]
    head = list(rows[0])
    width = {k: max(len(k), *(len(row[k]) for row in rows)) for k in head}
    lines = ["  ".join(k.rjust(width[k]) for k in head)]
    return lines + ["  ".join(row[k].rjust(width[k]) for k in head) for row in rows]


def as_html(title: str, rows: Sequence[Mapping[str, Any]] = (), notes: Iterable[str] = ()) -> str:
    """Format a title, rows with equal keys and notes as HTML, all text escaped.

    It needs nothing from outside the page. After `ROWS` rows it says how many more there are.
    """
    text = html.escape
    parts = [f"<div><p>{text(title)}</p>"]
    if rows:
        head = "".join(f"<th>{text(key)}</th>" for key in rows[0])
        lines = [
            "<tr>" + "".join(f"<td>{text(shown(value))}</td>" for value in row.values()) + "</tr>"
            for row in rows[:ROWS]
        ]
        parts.append(
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        )
    if len(rows) > ROWS:
        parts.append(f"<p>and {len(rows) - ROWS} more rows</p>")
    parts += [f"<p>{text(note)}</p>" for note in notes]
    return "".join(parts) + "</div>"


def shortened(
    rows: Sequence[dict[str, str]], names: Iterable[str], width: int
) -> list[dict[str, str]]:
    """Rows whose texts under `names` lose their middle, as far as aligned lines are too wide."""
    rows = [dict(row) for row in rows]
    present = [name for name in names if rows and name in rows[0]]
    cells = [(row, name) for row in rows for name in present]
    longest = max((len(row[name]) for row, name in cells), default=0)
    while longest > _SHORTEST and len(aligned(rows)[0]) > width:
        longest -= 1
        for row, name in cells:
            if len(row[name]) > longest:
                half = (longest - 1) // 2
                row[name] = f"{row[name][: longest - 1 - half]}…{row[name][-half:]}"
    return rows


def stacked(rows: Any, keys: int, width: int = WIDEST) -> list[str]:
    """Aligned lines of at most `width`; the first `keys` columns begin each table."""
    rows = [{k: shown(v) for k, v in row.items()} for row in rows]
    heads = list(rows[0])[:keys]
    tables: list[list[str]] = [[]]
    for name in list(rows[0])[keys:]:
        tried = [*heads, *tables[-1], name]
        if tables[-1] and len(aligned([{k: row[k] for k in tried} for row in rows])[0]) > width:
            tables.append([])
        tables[-1].append(name)
    lines: list[str] = []
    for table in tables:
        lines += aligned([{k: row[k] for k in [*heads, *table]} for row in rows])
    return lines


def wrapped(notes: Iterable[str]) -> list[str]:
    """Lines of notes, at most `WIDEST` wide."""
    return [line for note in notes for line in textwrap.wrap(note, WIDEST)]

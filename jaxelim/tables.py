"""Tables as aligned text, and as HTML for notebooks."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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

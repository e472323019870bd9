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


def as_html(title: str, rows: Sequence[Mapping[str, Any]], notes: Iterable[str]) -> str:
    """A title, rows with equal keys and notes as HTML, by pandas; of at most `ROWS` rows."""
    import pandas as pd  # slow to import, so only here

    frame = pd.DataFrame([{k: shown(v) for k, v in row.items()} for row in rows])
    table = frame.to_html(index=False, max_rows=ROWS) if rows else ""
    words = [f"<p>{html.escape(note)}</p>" for note in (title, *notes)]
    return "\n".join([words[0], table, *words[1:]])

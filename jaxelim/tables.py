"""Tables: pandas data frames that show a title above their rows, and notes below."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

ROWS = 20
"""Most rows of a table in a notebook."""


class Table(pd.DataFrame):
    """A data frame with a title and notes. Parts and copies of it are plain data frames.

    Args:
        rows: with equal keys, the names of the columns.
        title: what the table is of.
        notes: what its rows share, and what its numbers mean.
        shown: the rows as they are printed; None: the same, where numbers have four digits
            and NaN is a hyphen.
    """

    _metadata = ["title", "notes", "shown"]

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], title: str, notes: Iterable[str] = (),
        shown: Sequence[Mapping[str, Any]] | None = None,
    ):  # fmt: skip
        super().__init__(list(rows))
        self.title, self.notes, self.shown = title, list(notes), rows if shown is None else shown

    @property
    def _constructor(self) -> type:
        return pd.DataFrame

    def __repr__(self) -> str:
        return "\n".join([self.title, *aligned(self.shown), *self.notes])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        frame = pd.DataFrame(_in_words(self.shown))
        table = frame.to_html(index=False, max_rows=ROWS) if len(frame) else ""
        words = [f"<p>{html.escape(note)}</p>" for note in (self.title, *self.notes)]
        return "\n".join([words[0], table, *words[1:]])


def aligned(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Format rows with equal keys as aligned lines of text, the first of them the keys."""
    words = _in_words(rows)
    lines = [list(words[0]), *(list(row.values()) for row in words)] if words else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.rjust, line, widths)) for line in lines]


def shown(value: Any, digits: int = 4) -> str:
    """A cell's text: numbers have four digits, NaN is a hyphen."""
    if not isinstance(value, float):
        return str(value)
    whole = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return "-" if math.isnan(value) else whole


def _in_words(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [{key: shown(value) for key, value in row.items()} for row in rows]

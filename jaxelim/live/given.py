"""Rewards as callers have them: scalars, sequences, data frames, CSV files, and counts."""

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Family
from jaxelim.errors import ArgumentError, UnsupportedError, unknown_name
from jaxelim.instances.arms import Arms

LARGEST = 1e100
"""The largest absolute value of a reward, in the unit of a run; squares must not overflow."""
_EMPTY = frozenset(("", "#n/a", "<na>", "n/a", "na", "nan", "nat", "none", "null"))
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_REWARD = "a number with a decimal point, as 1234.5; or True, False, yes or no"
Row = tuple[Any, Any, int]
"""Cells of an arm and its reward, and the number of the row, from 1."""


class Entries(NamedTuple):
    """Rewards that a run can take."""

    arms: list[int]
    rewards: list[float]
    left_out: int  # rows with an empty cell


def entries(
    told: Any, value: Any, arm: Any, reward: Any, missing: str, arms: Arms
) -> Entries:
    """The rewards that `LiveRun.tell` is given, checked.

    Raises:
        ArgumentError: as of `LiveRun.tell`.
    """
    names, file = _columns(told), isinstance(told, os.PathLike) or hasattr(told, "read")
    if names is None and not file and value is None:
        value = reward
    if names is None and not file and not _several(told):
        number = int(value) if isinstance(value, bool | np.bool_) else value
        values = checks.real_array("reward", number, shape=()).reshape(-1).tolist()
        _check_rewards(arms.family, values)
        return Entries([arms.index(told)], values, 0)
    checks.choice("missing", missing, ("refuse", "skip"))
    columns = arm, reward
    rows = _of_csv(told, *columns, arms) if file else _of_columns(told, value, names, *columns)
    known: dict[tuple, int | None] = {}
    kept: list[tuple[int, float, int]] = []
    empty = []
    for cell, given, row in rows:
        key = type(cell), str(cell)
        if key not in known:
            known[key] = _index(cell, arms, f"row {row}", or_empty=True)
        index, number = known[key], _number(given)
        if index is None or _empty(given):
            empty.append(row)
        elif number is None:
            raise ArgumentError("reward", given, _REWARD, f"row {row}")
        else:
            kept.append((index, number, row))
    if empty and missing == "refuse":
        note = f"no arm or no reward in {len(empty)} of {len(rows)} rows, first in row {empty[0]}"
        raise ArgumentError("missing", missing, "'skip', which leaves these rows out", note)
    if not kept:
        note = f"{len(empty)} with an empty cell left out" if empty else ""
        raise ArgumentError("arm", rows, "arms and their rewards, at least one", note)
    indices, rewards, numbers = map(list, zip(*kept, strict=True))
    _check_rewards(arms.family, rewards, numbers)
    return Entries(indices, rewards, len(empty))


# Tables.


def _several(value: Any) -> bool:
    """Whether it is a column or a sequence, and not one value."""
    sequence = isinstance(value, Sequence) and not isinstance(value, str)
    return sequence or hasattr(value, "to_numpy") or np.ndim(value) > 0


def _columns(told: Any) -> list | None:
    """The names of the columns of a table; None where it is none."""
    names = getattr(told, "columns", told.keys() if isinstance(told, Mapping) else None)
    names = getattr(getattr(told, "dtype", None), "names", None) if names is None else names
    return None if names is None else list(names)


def _two(names: list, arm: Any, reward: Any) -> tuple[Any, Any]:
    """The names of the two columns that are read.

    Raises:
        ArgumentError: they are not named, not there, or there twice.
    """
    if arm is None and reward is None and len(names) == 2:
        return names[0], names[1]
    if arm is None or reward is None:
        allowed = "the names of both columns; none for two columns, arms and rewards"
        note = f"the columns are {', '.join(map(repr, names))}"
        raise ArgumentError("reward" if reward is None else "arm", None, allowed, note)
    for name, word in ((arm, "arm"), (reward, "reward")):
        if names.count(name) > 1:
            raise ArgumentError(word, name, "a name that one column has", "several have it")
        if name not in names:
            raise unknown_name(word, name, map(str, names))
    return arm, reward


def _of_columns(told: Any, value: Any, names: list | None, arm: Any, reward: Any) -> list[Row]:
    """The rows of a table with these columns, or of two sequences.

    Raises:
        ArgumentError: it has no such columns, or their lengths differ.
    """
    both = (told, value) if names is None else [told[name] for name in _two(names, arm, reward)]
    if not _several(both[1]):
        raise ArgumentError("reward", value, "as many rewards as arms")
    indices: list[Any] = [getattr(column, "index", None) for column in both]
    if all(hasattr(x, "equals") for x in indices) and not indices[0].equals(indices[1]):
        raise ArgumentError("reward", value, "a column with the index of the arms' column")
    first, second = map(_cells, both)
    if len(first) != len(second):
        note = f"{len(second)} of them, and {len(first)} arms"
        raise ArgumentError("reward", both[1], "as many rewards as arms", note)
    return list(zip(first, second, range(1, len(first) + 1), strict=True))


def _cells(column: Any) -> list:
    """The entries of a column or a sequence."""
    if hasattr(column, "to_numpy") or hasattr(column, "__array__"):
        array = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
        column = array if array.dtype.kind in "mM" else array.tolist()  # which makes times integers
    return list(column)


def _of_csv(source: Any, arm: str | None, reward: str | None, arms: Arms) -> list[Row]:
    """The rows of a CSV file, numbered by its lines.

    Raises:
        ArgumentError: it cannot be read, or has other columns.
    """
    name = str(source) if isinstance(source, os.PathLike) else "-"
    try:
        lines = _lines(source)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ArgumentError("csv", name, "a readable CSV file", str(error)) from error
    if not lines:
        raise ArgumentError("rewards", name, "a row for each reward", "it has no row")
    (top, head), named = lines[0], arm is not None or reward is not None
    if not named and len(head) != 2:
        allowed = "rows of an arm and a reward, with a comma, ; or tab between; or arm and reward, "
        allowed += "the names of two columns"
        raise ArgumentError("csv", name, allowed, f"row {top} has {len(head)} columns")
    first, second = (head.index(one) for one in _two(head, arm, reward)) if named else (0, 1)
    if named or _is_title(head, arms):
        lines = lines[1:]
    for row, cells in lines:
        if len(cells) != len(head):
            note = f"row {row} has {len(cells)} columns, and row {top} has {len(head)}"
            raise ArgumentError("csv", name, "rows of as many columns", note)
    return [(cells[first], cells[second], row) for row, cells in lines]


def _lines(source: Any) -> list[tuple[int, list[str]]]:
    """The lines of a CSV file that are not empty, by number.

    Of tab, semicolon and comma the first that splits its first line separates cells. The text
    is UTF-8, or UTF-16 with its mark.
    """
    if hasattr(source, "read"):
        text = source.read().removeprefix("\ufeff")
    else:
        raw = Path(source).read_bytes()
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    lines: list[tuple[int, list[str]]] = []
    for separator in "\t;,":
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        lines = [(reader.line_num, list(map(str.strip, cells))) for cells in reader if cells]
        if lines and len(lines[0][1]) > 1:
            break
    return lines


def _is_title(head: list[str], arms: Arms) -> bool:
    """Whether a first row is a title: it begins with no arm, and its second cell is a word."""
    try:
        _index(head[0], arms)
    except ArgumentError:
        return not _empty(head[1]) and _number(head[1]) is None
    return False


# Cells.


def _index(cell: Any, arms: Arms, place: str = "", or_empty: bool = False) -> int | None:
    """The index of an arm, by its name or its number, also where these are text.

    Raises:
        ArgumentError: there is no such arm. With `or_empty` None is returned for an empty cell.
    """
    text = str(cell).strip()
    if arms.names is not None and text in arms.names:
        return arms.names.index(text)
    if or_empty and _empty(cell):
        return None
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # a column with empty cells
    elif arms.names is None and text.isdecimal():
        cell = int(text)
    try:
        return arms.index(cell)
    except ArgumentError as error:
        note = "; ".join(filter(None, (place, error.note)))
        raise ArgumentError("arm", cell, error.allowed, note) from None


def _empty(cell: Any) -> bool:
    return str(cell).strip().lower() in _EMPTY


def _number(cell: Any) -> float | None:
    """The number of a cell; None where it is none."""
    if isinstance(cell, str):
        text = cell.strip().lower()
        number = float(text) if _NUMBER.fullmatch(text) else _WORDS.get(text, math.inf)
        return number if math.isfinite(number) else None
    if isinstance(cell, bool | int | float | np.bool_) and abs(cell) <= LARGEST:
        return float(cell)  # as nearly always
    try:
        return float(checks.real_array("reward", cell, ndim=0))
    except ArgumentError:
        return None


def _check_rewards(family: Family, rewards: Sequence[float], rows: Sequence[int] = ()) -> None:
    """Refuse rewards that the family cannot draw; `rows`: their numbers, for the message."""
    values = np.asarray(rewards, float)
    try:
        large = np.abs(values) > LARGEST * family.scale
        family.refuse_rewards(values, large, f"of at most {LARGEST:g} units")
        family.check_rewards(values)
    except ArgumentError:
        for reward, row in zip(rewards, rows, strict=False):
            try:
                _check_rewards(family, [reward])
            except ArgumentError as error:
                note = f"{error.note}; row {row}"
                raise ArgumentError(error.argument, reward, error.allowed, note) from None
        raise


# Counts.


class Pooled(NamedTuple):
    """Rewards of every arm, by their number, mean and spread: [K] each."""

    pulls: np.ndarray  # int64
    means: np.ndarray  # 0 where there is no pull
    squares: np.ndarray  # sums of squared differences to the mean

    @staticmethod
    def of(counts: Iterable[Sequence], arms: int) -> "Pooled":
        """From rows (arm, sum, number) or (arm, sum, number, sum of squares)."""
        pulls = np.zeros(arms, np.int64)
        means, squares = np.zeros((2, arms))
        for k, total, number, *more in counts:
            pulls[k] = number
            if number:
                means[k] = total / number
                # Exactly, as the difference has few of the digits of its terms.
                spread = Fraction(more[0] if more else 0) - Fraction(total) ** 2 / number
                squares[k] = max(float(spread), 0.0)
        return Pooled(pulls, means, squares)


def counts(told: Any, arms: Arms) -> list[list]:
    """Rows (arm, sum, number) of a mapping, with a sum of squares where the family needs it.

    Raises:
        UnsupportedError: the family needs more than counts.
        ArgumentError: it is no such mapping, there is no such arm, or its
            rewards cannot have these sums.
    """
    family, found = arms.family, []
    kinds = [vars(kind) for kind in type(family).__mro__]
    own = next(names for names in kinds if "update" in names or "pooled" in names)
    if not family.sufficient or "pooled" not in own:  # else a class updates other statistics
        allowed = f"None: of {family!r} their sums say too little"
        raise UnsupportedError("counts", told, allowed)
    words = "(sum, number)" if family.sufficient < 2 else "(sum, number, sum of squares)"
    allowed = f"arms and their {words} of rewards"
    if not isinstance(told, Mapping) or not told:
        raise ArgumentError("counts", told, f"a mapping of {allowed}")
    for name, own in told.items():
        entry = {name: own}
        if not isinstance(own, Sequence | np.ndarray) or len(own) != 1 + family.sufficient:
            raise ArgumentError("counts", entry, allowed)
        k, number = _index(name, arms), checks.integer("counts", own[1], low=0)
        total, *more = (checks.real("counts", x) for x in (own[0], *own[2:]))
        if number:
            _check_sums(family, total, number, more, entry)
        elif total or any(more):
            raise ArgumentError("counts", entry, "sums of 0 where there is no reward")
        found.append([k, total, number, *more])
    if len({k for k, *_ in found}) < len(found):
        raise ArgumentError("counts", told, "each arm once")
    return found


def _check_sums(family: Family, total: float, number: int, more: list[float], entry: dict) -> None:
    """Refuse sums that no rewards of the family have."""
    mean = total / number
    whole = total == math.floor(total)  # as of whole numbers, of which the mean may be none
    for values in ([mean], [math.floor(mean), math.ceil(mean)])[: 1 + whole]:
        try:
            _check_rewards(family, values)
            break
        except ArgumentError as error:
            refused = error
    else:
        allowed = f"a sum, then the number of {refused.allowed}"
        raise ArgumentError("counts", entry, allowed, f"mean {mean:g}")
    if more and more[0] < total * mean * (1 - 1e-12):
        note = f"{more[0]:g} is below {total * mean:g}, the sum squared over the number"
        raise ArgumentError("counts", entry, "the sum of squares of such rewards", note)

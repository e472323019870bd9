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
from jaxelim.errors import ArgumentError, unknown_name
from jaxelim.instances.arms import Arms

LARGEST = 1e100
"""The largest absolute value of a reward, in the unit of a run; squares must not overflow."""
SEPARATORS = "\t;,"
"""Separators of a CSV file; the first of them that splits its first row is taken."""
MISSING = ("refuse", "skip")
"""What may be done with rows that have an empty cell."""
_EMPTY = frozenset(("", "#n/a", "<na>", "n/a", "na", "nan", "nat", "none", "null"))
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_REWARD = "a number with a decimal point, as 1234.5; or True, False, yes or no"


class Rows(NamedTuple):
    """Cells of arms and of rewards, row by row."""

    arms: Sequence
    rewards: Sequence
    numbers: Sequence[int]  # of the rows, counted from 1


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
    table = _columns(told) is not None or _is_file(told)
    if value is None and not table:
        value, reward = reward, None
    if table or _several(told):
        return _of_rows(_rows(told, value, arm, reward, arms), arms, missing)
    number = int(value) if isinstance(value, bool | np.bool_) else value
    values = checks.real_array("reward", number, shape=()).reshape(-1).tolist()
    _check_rewards(arms.family, values)
    return Entries([arms.index(told)], values, 0)


# Rows.


def _several(value: Any) -> bool:
    """Whether it is a column or a sequence, and not one value."""
    sequence = isinstance(value, Sequence) and not isinstance(value, str)
    return sequence or hasattr(value, "to_numpy") or np.ndim(value) > 0


def _rows(told: Any, value: Any, arm: Any, reward: Any, arms: Arms) -> Rows:
    """The rows of a table, of which `arm` and `reward` name columns; or of two sequences.

    Raises:
        ArgumentError: it has no such columns, or their lengths differ.
    """
    if _is_file(told):
        return _of_csv(told, arm, reward, arms)
    names = _columns(told)
    if names is not None:
        named = tuple(told[name] for name in _two(names, arm, reward))
    else:
        named = told, value
        if not _several(value):
            raise ArgumentError("reward", value, "as many rewards as arms")
        indices: list[Any] = [getattr(column, "index", None) for column in named]
        if all(hasattr(x, "equals") for x in indices) and not indices[0].equals(indices[1]):
            raise ArgumentError("reward", value, "a column with the index of the arms' column")
    cells = [_cells(column) for column in named]
    if len(cells[0]) != len(cells[1]):
        note = f"{len(cells[1])} of them, and {len(cells[0])} arms"
        raise ArgumentError("reward", named[1], "as many rewards as arms", note)
    return Rows(cells[0], cells[1], range(1, len(cells[0]) + 1))


def _is_file(told: Any) -> bool:
    return isinstance(told, os.PathLike) or hasattr(told, "read")


def _columns(told: Any) -> list | None:
    """The names of the columns of a table; None where it is none."""
    names = getattr(told, "columns", None)
    if names is None and isinstance(told, Mapping):
        names = told.keys()
    if names is None:
        names = getattr(getattr(told, "dtype", None), "names", None)
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


def _cells(column: Any) -> list:
    """The entries of a column or a sequence."""
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    elif hasattr(column, "__array__"):
        column = np.asarray(column)
    if isinstance(column, np.ndarray) and column.dtype.kind not in "mM":
        column = column.tolist()  # of times it would make integers
    return list(column)


def _of_csv(source: Any, arm: str | None, reward: str | None, arms: Arms) -> Rows:
    """The rows of a CSV file, numbered by its lines.

    Raises:
        ArgumentError: it cannot be read, or has other columns.
    """
    name, row = str(source) if isinstance(source, os.PathLike) else "-", 0
    try:
        text = _text(source)
        separator = next((one for one in SEPARATORS if len(_first(text, one)) > 1), ",")
        reader, lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator), []
        for cells in reader:
            row = reader.line_num
            if cells:
                lines.append((row, [cell.strip() for cell in cells]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        note = f"row {row + 1}: {error}" if isinstance(error, csv.Error) else str(error)
        raise ArgumentError("csv", name, "a readable CSV file", note) from error
    if not lines:
        raise ArgumentError("rewards", name, "a row for each reward", "it has no row")
    (top, head), named = lines[0], arm is not None or reward is not None
    if not named and len(head) != 2:
        allowed = "rows of an arm and a reward, with a comma, ; or tab between; or arm and reward, "
        allowed += "the names of two columns"
        raise ArgumentError("csv", name, allowed, f"row {top} has {len(head)} columns")
    first, second = (head.index(one) for one in _two(head, arm, reward)) if named else (0, 1)
    # A row of an arm is no title, and a number or an empty cell is none.
    if named or not (_known(head[0], arms) or _empty(head[1]) or _number(head[1]) is not None):
        lines = lines[1:]
    for row, cells in lines:
        if len(cells) != len(head):
            note = f"row {row} has {len(cells)} columns, and row {top} has {len(head)}"
            raise ArgumentError("csv", name, "rows of as many columns", note)
    numbers, bodies = [row for row, _ in lines], [cells for _, cells in lines]
    return Rows([cells[first] for cells in bodies], [cells[second] for cells in bodies], numbers)


def _text(source: Any) -> str:
    """The text of a file, in UTF-8 or with the mark of UTF-16, without that mark."""
    if hasattr(source, "read"):
        return source.read().removeprefix("\ufeff")
    raw = Path(source).read_bytes()
    wide = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    return raw.decode("utf-16" if wide else "utf-8-sig")


def _first(text: str, separator: str) -> list[str]:
    """The first row that is not empty."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    return next(filter(None, reader), [])


# Cells.


def _of_rows(given: Rows, arms: Arms, missing: str) -> Entries:
    """The rewards of rows, each checked; `missing`: what is done with those that lack a cell.

    Raises:
        ArgumentError: no such arm, no number, a reward that the family
            cannot draw, or an empty cell, with its row; or there is no row.
    """
    checks.choice("missing", missing, MISSING)
    known: dict[tuple, int | None] = {}
    kept: list[tuple[int, float, int]] = []
    empty = []
    for cell, value, row in zip(given.arms, given.rewards, given.numbers, strict=True):
        key = type(cell), str(cell)
        if key not in known:
            nobody = _empty(cell) and not _known(cell, arms)
            known[key] = None if nobody else _index(cell, arms, f"row {row}")
        arm = known[key]
        if arm is None or _empty(value):
            empty.append(row)
            continue
        number = _number(value)
        if number is None:
            raise ArgumentError("reward", value, _REWARD, f"row {row}")
        kept.append((arm, number, row))
    if empty and missing == "refuse":
        rows = f"{len(empty)} of {len(given.numbers)} rows"
        note = f"no arm or no reward in {rows}, first in row {empty[0]}"
        raise ArgumentError("missing", missing, "'skip', which leaves these rows out", note)
    if not kept:
        note = f"{len(empty)} with an empty cell left out" if empty else ""
        raise ArgumentError("arm", given.arms, "arms and their rewards, at least one", note)
    _check_rewards(arms.family, [x for _, x, _ in kept], [row for *_, row in kept])
    return Entries([arm for arm, *_ in kept], [x for _, x, _ in kept], len(empty))


def _check_rewards(family: Family, rewards: Sequence[float], numbers: Sequence[int] = ()) -> None:
    """Refuse rewards that the family cannot draw; `numbers`: their rows, none of a single one."""

    def check(values: np.ndarray) -> None:
        large = np.abs(values) > LARGEST * family.scale
        family.refuse_rewards(values, large, f"of at most {LARGEST:g} units")
        family.check_rewards(values)

    try:
        check(np.asarray(rewards, float))
    except ArgumentError:
        for reward, row in zip(rewards, numbers, strict=False):
            try:
                check(np.asarray([reward]))
            except ArgumentError as error:
                note = f"{error.note}; row {row}"
                raise ArgumentError(error.argument, reward, error.allowed, note) from None
        raise


def _index(cell: Any, arms: Arms, place: str) -> int:
    """The index of an arm, by its name or its number, also where these are text.

    Raises:
        ArgumentError: there is no such arm.
    """
    text = str(cell).strip()
    if arms.names is not None and text in arms.names:
        return arms.names.index(text)
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # a column with empty cells
    elif arms.names is None and text.isdecimal():
        cell = int(text)
    try:
        return arms.index(cell)
    except ArgumentError as error:
        note = "; ".join(filter(None, (place, error.note)))
        raise ArgumentError("arm", cell, error.allowed, note) from None


def _known(cell: Any, arms: Arms) -> bool:
    """Whether a cell names an arm."""
    try:
        return _index(cell, arms, "") >= 0
    except ArgumentError:
        return False


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


# Counts.


def pools(family: Family) -> bool:
    """Whether `Family.pooled` goes with `update`; a class may have other statistics."""
    kinds = [vars(kind) for kind in type(family).__mro__]
    first = next(own for own in kinds if "update" in own or "pooled" in own)
    return family.sufficient > 0 and "pooled" in first


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
        ArgumentError: it is no such mapping, there is no such arm, or its
            rewards cannot have these sums.
    """
    family, found = arms.family, []
    words = "(sum, number)" if family.sufficient < 2 else "(sum, number, sum of squares)"
    allowed = f"arms and their {words} of rewards"
    if not isinstance(told, Mapping) or not told:
        raise ArgumentError("counts", told, f"a mapping of {allowed}")
    for name, own in told.items():
        entry = {name: own}
        if not isinstance(own, Sequence | np.ndarray) or len(own) != 1 + family.sufficient:
            raise ArgumentError("counts", entry, allowed)
        k, number = _index(name, arms, ""), checks.integer("counts", own[1], low=0)
        total, *more = (checks.real("counts", x) for x in (own[0], *own[2:]))
        if number == 0 and (total or any(more)):
            raise ArgumentError("counts", entry, "sums of 0 where there is no reward")
        if number:
            _check_sum(family, total, number, more, entry)
        found.append([k, total, number, *more])
    if len({k for k, *_ in found}) < len(found):
        raise ArgumentError("counts", told, "each arm once")
    return found


def _check_sum(family: Family, total: float, number: int, more: list[float], entry: dict) -> None:
    """Refuse a sum that no rewards of the family have."""
    mean = total / number
    try:
        try:
            _check_rewards(family, [mean])
        except ArgumentError:
            if total != math.floor(total):
                raise
            _check_rewards(family, [math.floor(mean), math.ceil(mean)])  # of whole numbers
    except ArgumentError as error:
        allowed = f"a sum, then the number of {error.allowed}"
        raise ArgumentError("counts", entry, allowed, f"mean {mean:g}") from None
    if more and more[0] < total * mean * (1 - 1e-12):
        note = f"{more[0]:g} is below {total * mean:g}, the sum squared over the number"
        raise ArgumentError("counts", entry, "the sum of squares of such rewards", note)

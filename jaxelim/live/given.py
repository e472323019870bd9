"""Rewards as callers have them: one, sequences, tables, CSV files, and counts."""

import io
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

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


def entries(
    told: Any, value: Any, arm: Any, reward: Any, missing: str, arms: Arms, item: Any = None
) -> tuple[list[int], list[float], int, list | None]:
    """Arms and rewards that `LiveRun.tell` is given, checked, and how many rows were left out.

    And the items, where they are named.
    """
    checks.choice("missing", missing, ("refuse", "skip"))
    names, file = _names(told), isinstance(told, os.PathLike) or hasattr(told, "read")
    if names is None and not file:
        value = reward if value is None else value
        if _single(told):
            indices = [arms.index(told)]
            number = int(value) if isinstance(value, bool | np.bool_) else value
            rewards = [checks.real("reward", number)]
            _check_rewards(arms.family, rewards)
            return indices, rewards, 0, None if item is None else [item]
        if _single(value):
            raise ArgumentError("reward", value, "as many rewards as arms")
        told, arm, reward = {"arm": told, "reward": value}, "arm", "reward"
        if item is not None:
            told, item = told | {"item": item}, "item"
        names = list(told)
    frame = _columns(told, names, arm, reward, arms, item)
    indices, rewards, rows, empty, items = [], [], [], [], []
    for row, cell, given, *named in frame.itertuples(name=None):
        lacks = _empty(given) or any(map(_empty, named))
        if lacks or (_empty(cell) and str(cell).strip() not in (arms.names or ())):
            empty.append(row)
            continue
        try:
            indices.append(_index(cell, arms))
        except ArgumentError as error:
            raise _in_row(error, cell, row) from None
        if (number := _number(given)) is None:
            raise ArgumentError("reward", given, _REWARD, f"row {row}")
        rewards.append(number)
        rows.append(row)
        items += named
    if empty and missing == "refuse":
        what = "no arm or no reward" if item is None else "no arm, no reward or no item"
        note = f"{what} in {len(empty)} of {len(frame)} rows, first in row {empty[0]}"
        raise ArgumentError("missing", missing, "'skip', which leaves these rows out", note)
    if not rows:
        note = f"{len(empty)} with an empty cell left out" if empty else ""
        allowed = "arms and their rewards, at least one"
        raise ArgumentError("arm", frame.to_numpy().tolist(), allowed, note)
    try:
        _check_rewards(arms.family, rewards)
    except ArgumentError:
        for row, number in zip(rows, rewards, strict=True):
            try:
                _check_rewards(arms.family, [number])
            except ArgumentError as error:
                raise _in_row(error, number, row) from None
        raise
    return indices, rewards, len(empty), None if item is None else items


def _single(value: Any) -> bool:
    """Whether it is one value, and no column or sequence."""
    return isinstance(value, str) or not (isinstance(value, Sequence) or np.ndim(value))


def _in_row(error: ArgumentError, given: Any, row: int) -> ArgumentError:
    """The error, with the number of its row."""
    note = "; ".join(filter(None, (error.note, f"row {row}")))
    return ArgumentError(error.argument, given, error.allowed, note)


# Tables.


def _names(told: Any) -> list | None:
    """The names of the columns of a table; None where it is none, or a file."""
    names = getattr(told, "columns", told.keys() if isinstance(told, Mapping) else None)
    names = getattr(getattr(told, "dtype", None), "names", None) if names is None else names
    return None if names is None else list(names)


def _columns(
    told: Any, names: list | None, arm: Any, reward: Any, arms: Arms, item: Any = None
) -> Any:
    """The columns of arms, rewards and items, as a frame with the numbers of the rows."""
    import pandas as pd  # slow to import

    def plain(column: Any) -> Any:
        array = hasattr(column, "__array__") and not isinstance(column, pd.Series)
        return np.asarray(column) if array else column

    try:
        if names is None:
            frame = _of_csv(told, arm is not None or reward is not None, arms)
        else:
            whole = isinstance(told, pd.DataFrame)
            frame = told if whole else pd.DataFrame({name: plain(told[name]) for name in names})
            frame = frame.set_axis(range(1, len(frame) + 1))
    except (OSError, ValueError) as error:
        shown = str(told) if isinstance(told, os.PathLike) else told
        allowed = "a row for each reward: a readable CSV file, or columns of one length"
        raise ArgumentError("rewards", shown, allowed, str(error)) from error
    names = list(frame.columns)
    if arm is None and reward is None and item is None and len(names) == 2:
        return frame
    wanted = [(arm, "arm"), (reward, "reward"), *[(item, "item")] * (item is not None)]
    for name, word in wanted:
        if name is None:
            allowed = "the names of both columns; none for two columns, arms and rewards"
            note = f"the columns are {', '.join(map(repr, names))}"
            raise ArgumentError(word, None, allowed, note)
        if names.count(name) > 1:
            raise ArgumentError(word, name, "a name that one column has", "several have it")
        if name not in names:
            raise unknown_name(word, name, map(str, names))
    return frame[[name for name, _ in wanted]]


def _of_csv(source: Any, named: bool, arms: Arms) -> Any:
    """The rows of a CSV file as a frame of text; with a title if columns are `named`.

    Of tab, semicolon and comma the first that splits its first line separates cells. The text
    is UTF-8, or UTF-16 with its mark.
    """
    import pandas as pd  # slow to import

    if hasattr(source, "read"):
        text = source.read().removeprefix("\ufeff")
    else:
        raw = Path(source).read_bytes()
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")

    def read(separator: str, rows: int | None = None) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(text), sep=separator, header=None, nrows=rows, dtype=str,
                           keep_default_na=False, skipinitialspace=True)  # fmt: skip

    frame = read(next((one for one in "\t;" if read(one, 1).shape[1] > 1), ","))
    frame = frame.set_axis(frame.index + 1).map(lambda cell: str(cell).strip())
    head = frame.iloc[0].tolist()
    if not named and len(head) == 2:  # a title begins with no arm, and its second cell is a word
        try:
            _index(head[0], arms)
            return frame
        except ArgumentError:
            if _empty(head[1]) or _number(head[1]) is not None:
                return frame
    return frame.iloc[1:].set_axis(head, axis=1)


# Cells.


def _index(cell: Any, arms: Arms) -> int:
    """The index of an arm, by its name or its number, also where these are text."""
    text = str(cell).strip()
    if isinstance(cell, float) and cell.is_integer() and text not in (arms.names or ()):
        cell = int(cell)  # a column with empty cells
        text = str(cell)
    if arms.names is not None and text in arms.names:
        return arms.names.index(text)
    if arms.names is None and text.isdecimal():
        cell = int(text)
    return arms.index(cell)


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
        return checks.real("reward", cell)
    except ArgumentError:
        return None


def _check_rewards(family: Family, rewards: Sequence[float]) -> None:
    """Refuse rewards that the family cannot draw."""
    values = np.asarray(rewards, float)
    large = np.abs(values) > LARGEST * family.scale
    family.refuse_rewards(values, large, f"of at most {LARGEST:g} units")
    family.check_rewards(values)


# Items.


class Items:
    """The items of a run of paired rewards, by the events that it has counted."""

    def __init__(self) -> None:
        self.counted = 0
        self.at: dict[str, int] = {}  # the place of each item, by its name
        self.have: set[tuple[int, int]] = set()  # (arm, place) of the scores

    def count(self, events: list[dict]) -> "Items":
        """Count the events that are new."""
        for event in events[self.counted :]:
            self.at |= {name: len(self.at) + n for n, name in enumerate(event.get("named", ()))}
            self.have.update(zip(event.get("tell", ()), event.get("items", ()), strict=False))
        self.counted = len(events)
        return self


def places(
    items: Sequence | None, arms: list[int], run: Arms, seen: Items, events: list[dict]
) -> dict[str, list]:
    """What an event says of items: the place of each row's, and the names of new ones.

    `items` and `arms` are of the rows; the others are of the run so far.
    """
    stack: Any = run.source
    most = run.family.items
    if most is None:
        if items is not None:
            raise ArgumentError("item", items, f"None: {run.family!r} has no common items")
        return {}
    most = most if stack is None else stack.sizes[0]
    at, have = dict(seen.count(events).at), set(seen.have)
    event: dict[str, list] = {"items": []}
    if items is None:
        if len(arms) > 1 or not all(map(str.isdecimal, at)):
            allowed = "the item of each reward, by name or number: arms are compared item by item"
            raise ArgumentError("item", None, allowed)
        items = [sum(arm == arms[0] for arm, _ in have)]
    for k, item in zip(arms, items, strict=True):
        if not isinstance(item, str | int | np.integer) or isinstance(item, bool):
            raise ArgumentError("item", item, "the name or the number of an item")
        place = at.setdefault(str(item), len(at))
        if (k, place) in have:
            raise ArgumentError("item", item, f"one that {run.label(k)} has no score of yet")
        if place >= most:
            whose = f"that {run.family!r} keeps" if stack is None else "of the stack"
            allowed = f"one of the {most} items {whose}: each arm has a score of each once"
            raise ArgumentError("item", item, allowed)
        have.add((k, place))
        event["items"].append(place)
    return event | {"named": list(at)[len(seen.at) :]}


def room(waiting: Sequence[int], counts: np.ndarray, family: Family) -> int:
    """How many of the arms that wait, in order, have an item left; one at least."""
    if family.items is None:
        return len(waiting)
    left = family.items - counts
    for n, k in enumerate(waiting):
        left[k] -= 1
        if left[k] < 0 and n:
            return n
        if left[k] < 0:
            allowed = f"more items than {family.items}, which the arm has: stop(), or a new run"
            raise UnsupportedError("family", family, allowed)
    return len(waiting)


def in_order(rows: tuple, waiting: Sequence[int], seed: list[int]) -> tuple[Any, Any, Any]:
    """Rows of a stack, arms, rewards and items, in the order in which they enter.

    Those that answer arms that wait stay in theirs. Others may be sorted by reward, which no
    random order is: they are shuffled.
    """
    left, answers, others = Counter(waiting), [], []
    for n, k in enumerate(rows[0]):
        (answers if left[k] > 0 else others).append(n)
        left[k] -= 1
    np.random.default_rng(seed).shuffle(others)
    arms, rewards, items = (x and [x[n] for n in answers + others] for x in rows)
    return arms, rewards, items


# Counts.


def counts(told: Any, arms: Arms, most: int) -> tuple[list, list, list]:
    """Arms, rewards and how often each came, at most `most`, of the sums that `tell` is given."""
    family, rows = arms.family, []
    kinds = [vars(kind) for kind in type(family).__mro__]
    own = next(names for names in kinds if "update" in names or "sufficient" in names)
    if not family.sufficient or "sufficient" not in own:  # else a class counts otherwise
        allowed = f"None: of {family!r} their sums say too little"
        raise UnsupportedError("counts", told, allowed)
    words = "(sum, number)" if family.sufficient < 2 else "(sum, number, sum of squares)"
    allowed = f"arms and their {words} of rewards"
    if not isinstance(told, Mapping) or not told:
        raise ArgumentError("counts", told, f"a mapping of {allowed}")
    known = set()
    for name, own in told.items():
        entry, k = {name: own}, _index(name, arms)
        if not isinstance(own, Sequence | np.ndarray) or len(own) != 1 + family.sufficient:
            raise ArgumentError("counts", entry, allowed)
        number = checks.integer("counts", own[1], low=0)
        total, *more = (checks.real("counts", x) for x in (own[0], *own[2:]))
        if k in known:
            raise ArgumentError("counts", told, "each arm once")
        known.add(k)
        if number:
            _check_sums(family, total, number, more, entry)
            rows += [(k, reward, times) for reward, times in _alike(total, number, *more) if times]
        elif total or any(more):
            raise ArgumentError("counts", entry, "sums of 0 where there is no reward")
    number = sum(times for *_, times in rows)
    if not 0 < number <= most:
        raise ArgumentError("counts", told, f"1 to {most} further rewards", f"{number} of them")
    return tuple(map(list, zip(*rows, strict=True)))  # type: ignore[return-value]


def _alike(total: float, number: int, squares: float | None = None) -> list[tuple[float, int]]:
    """Rewards, and how often each comes, with these sums."""
    mean, half = total / number, number // 2
    if squares is None or not half:
        return [(mean, number)]
    # Exactly, as the difference has few of the digits of its terms.
    spread = float(Fraction(squares) - Fraction(total) ** 2 / number)
    rest = number - half
    off = math.sqrt(max(spread, 0.0) / (number * half * rest))
    return [(mean + off * rest, half), (mean - off * half, rest)]


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

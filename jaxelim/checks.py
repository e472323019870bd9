"""Validators of arguments: each returns a value in canonical form, or raises `ArgumentError`.

They run on the host, before a call's program compiles. They refuse NaN and infinities,
and bools in place of numbers, since NumPy would read True as 1.
"""

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxelim.errors import ArgumentError, unknown_name

MAX_SAMPLES = 1_000_000
"""The default cap on a run's samples, in `simulate` and on the command line."""
MAX_RUNS = 2**31  # run indices fit int32


def real_array(
    name: str,
    value: Any,
    *,
    ndim: int | tuple[int, ...] | None = None,
    shape: tuple[int | None, ...] | None = None,
    kind: str = "",
) -> np.ndarray:
    """Convert `value` to a new C-ordered float64 array.

    Converts integers. Refuses bools (at any depth), complex numbers, objects, strings,
    dates, masked arrays, ragged lists, NaN and infinities. `ndim` is the number of dimensions,
    or those allowed; in `shape` None is any length; `kind` says in words what is allowed.
    """
    dimensions = (ndim,) if isinstance(ndim, int) else ndim
    dimensions = dimensions if shape is None else (len(shape),)
    kind = kind or _shape_in_words(dimensions, shape)
    array = _as_array(name, value, kind)
    if array.dtype.kind not in "iuf":
        raise ArgumentError(name, value, kind, f"its type is {array.dtype}")
    wrong = dimensions is not None and array.ndim not in dimensions
    if wrong or any(n not in (None, own) for n, own in zip(shape or (), array.shape, strict=False)):
        raise ArgumentError(name, value, kind, f"its shape is {array.shape}")
    # A long double may become inf here; the check below finds it.
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.array(array, dtype=np.float64, order="C", subok=False)
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(np.argwhere(bad)[0].tolist())
        note = f"{array[where]} at {list(where)}" if array.ndim else ""
        raise ArgumentError(name, value, kind, note)
    return array


def real(
    name: str, value: Any, *, low: float | None = None, high: float | None = None,
    open: bool = False,
) -> float:  # fmt: skip
    """Convert `value`, a number or an array without dimensions, to a finite Python float.

    It is from `low` to `high`, None for no bound; where the interval is `open`, without them.
    """
    kind = _bounds_in_words("a finite number", low, high, open)
    try:
        # NumPy would make an object of an integer >= 2^64.
        plain = isinstance(value, int) and not isinstance(value, bool)
        number = float(value if plain else real_array(name, value, ndim=0))
    except (ArgumentError, OverflowError):
        raise ArgumentError(name, value, kind) from None
    if not _within(number, low, high, open):
        raise ArgumentError(name, value, kind)
    return number


def integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """Convert an integer of Python or NumPy, and no bool, to an int from `low` to `high`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (whole and _within(int(value), low, high)):
        raise ArgumentError(name, value, _bounds_in_words("an integer", low, high))
    return int(value)


def refuse_off_simplex(name: str, value: Any, weights: np.ndarray) -> None:
    """Refuse weights, [.., K], that are negative or do not sum to 1, both within 1e-9."""
    allowed = "non-negative numbers that sum to 1, to within 1e-9"
    if weights.size == 0:
        raise ArgumentError(name, value, allowed)
    off = np.abs(weights.sum(axis=-1) - 1).max()
    if weights.min() < -1e-9 or off > 1e-9:
        note = f"the smallest weight is {weights.min():.3g}, the sum is off by {off:.3g}"
        raise ArgumentError(name, value, allowed, note)


def fractions(name: str, value: Any, high: float = 1.0, said: str = "1") -> np.ndarray:
    """Convert numbers strictly between 0 and `high`, in words `said`, to float64: [] or [n]."""
    kind = f"a number strictly between 0 and {said}, or a non-empty 1-D array of such numbers"
    array = real_array(name, value, ndim=(0, 1), kind=kind)
    bad = (array <= 0) | (array >= high)
    if array.size == 0 or bad.any():
        note = f"{array[bad][0]} at [{np.argmax(bad)}]" if array.size > 1 else ""
        raise ArgumentError(name, value, kind, note)
    return array


def deltas(value: Any) -> np.ndarray:
    """Convert error probabilities, a number or a 1-D array, to a float64 array [deltas]."""
    return np.atleast_1d(fractions("delta", value))


def runs(value: Any) -> np.ndarray:
    """Convert a number n, for 0 .. n-1, or run indices in their order, to int64 [runs]."""
    kind = "an integer n >= 1 (runs 0 .. n-1), or a non-empty 1-D array of distinct integers from "
    kind += "0 to 2^31 - 1"
    if isinstance(value, int | np.integer):
        if isinstance(value, bool) or not 1 <= value <= MAX_RUNS:
            raise ArgumentError("runs", value, kind)
        return np.arange(value, dtype=np.int64)
    array, note = _as_array("runs", value, kind), ""
    if array.ndim != 1 or array.size == 0:
        note = f"its shape is {array.shape}"
    elif array.dtype.kind not in "iu":
        note = f"its type is {array.dtype}"
    elif (bad := (array < 0) | (array >= MAX_RUNS)).any():
        note = f"{array[bad][0]} at [{np.argmax(bad)}]"
    else:
        distinct, counts = np.unique(array, return_counts=True)
        if distinct.size < array.size:
            note = f"{distinct[counts > 1][0]} is given more than once"
    if note:
        raise ArgumentError("runs", value, kind, note)
    return array.astype(np.int64)  # always a copy


def seed(value: Any) -> int:
    """Convert a seed to a Python int, 0 <= seed < 2^63."""
    return integer("seed", value, low=0, high=2**63 - 1)  # int64


def choice(name: str, value: Any, known: Iterable[str]) -> str:
    """Check that `value` is one of the `known` names, and return it."""
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)
    return value


def written(text: str) -> Any:
    """The value of a text: JSON, or plain words."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _as_array(name: str, value: Any, kind: str) -> np.ndarray:
    """Convert `value` to an array of any dtype; refuse bools, masks and what NumPy refuses."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(name, value, kind, "a masked array")
    if _holds_bool(value):
        raise ArgumentError(name, value, kind, "a bool is not a number here")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:  # ragged lists, JAX tracers and keys
        reason = str(error).split("\n")[0] or type(error).__name__
        raise ArgumentError(name, value, kind, reason) from None


def _holds_bool(value: Any, depth: int = 0) -> bool:
    """Whether nested lists hold a bool: NumPy reads [True, 0.5] as [1.0, 0.5]."""
    # A list may contain itself; NumPy refuses lists deeper than 64.
    if isinstance(value, list | tuple):
        return depth < 64 and any(_holds_bool(entry, depth + 1) for entry in value)
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def _shape_in_words(
    dimensions: tuple[int, ...] | None, shape: tuple[int | None, ...] | None
) -> str:
    if shape is not None:
        lengths = ", ".join("any" if n is None else str(n) for n in shape)
        return f"finite real numbers in an array of shape ({lengths})"
    if dimensions is None or dimensions == (0,):
        return "finite real numbers" if dimensions is None else "a finite real number"
    return f"finite real numbers in an array with {' or '.join(map(str, dimensions))} dimensions"


def _within(number: float, low: float | None, high: float | None, open: bool = False) -> bool:
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    return low < number < high if open else low <= number <= high


def _bounds_in_words(kind: str, low: Any, high: Any, open: bool = False) -> str:
    if low is None or high is None:
        end, sign = (high, "<") if low is None else (low, ">")
        bound = f"{kind} {sign}{'' if open else '='} {end}"
        return kind.replace("finite", "finite real") if end is None else bound
    if "integer" in kind:
        return f"{kind} from {low} to {high}"
    return f"a number strictly between {low} and {high}" if open else f"a number in [{low}, {high}]"


def shipped(thing: Any) -> bool:
    """Whether the library defines the class of a rule, problem or family, and not a user."""
    return type(thing).__module__.startswith("jaxelim.")

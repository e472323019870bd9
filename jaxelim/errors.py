"""The exceptions of jaxelim.

Each names an argument, its value and what is allowed, or a file and what is wrong with it.

Errors of arguments are raised on the host, before a call's program compiles. Only an arm or
an answer out of range, and a number that is not finite, are refused after the chunk in which
they occur. All survive pickling, so a worker process can send them to its parent.
"""

import dataclasses
import difflib
import reprlib
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

_NEAR = 0.65  # least similarity of a name that is suggested, from 0 to 1
_LONGEST = 160  # most characters of a value in a message


class _Fields(BaseException):
    """An exception whose fields are its arguments, so that it survives pickling."""

    def __post_init__(self) -> None:
        self.args = tuple(vars(self).values())


class JaxelimError(_Fields, Exception):
    """The base class of all exceptions of jaxelim."""


@dataclasses.dataclass(eq=False, repr=False)
class ArgumentError(JaxelimError, ValueError):
    """An argument is not allowed.

    Args:
        argument: the argument's name, as the caller wrote it.
        given: its value. Messages abbreviate long values; the attribute does not.
        allowed: what is allowed, in words.
        note: what is wrong with the value, where that is not obvious ("nan at [3, 2]").
    """

    argument: str
    given: Any
    allowed: str
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.argument}: got {abbreviate(self.given)}{note}; allowed: {self.allowed}"


class UnsupportedError(ArgumentError):
    """A combination of rule, problem, structure and stopping rule is not defined."""


@dataclasses.dataclass(eq=False, repr=False)
class _ContractError(ArgumentError):
    """A fault of a class of one's own, and where it occurred: t, run, instance and arm."""

    t: int | None = None
    run: int | None = None
    instance: int | None = None
    arm: int | None = None


class FamilyError(_ContractError):
    """A family or a source breaks its contract: a method raises, or returns what is not allowed.

    Rewards, estimates and LLRs that are not finite are refused after the chunk in which they came.
    Its fields are those of a `RuleError`, without an arm.
    """


class RuleError(_ContractError):
    """A sampling rule breaks its contract: a method raises, or returns what is not allowed.

    An arm out of range, or a choice among scores with NaN, is refused after the chunk with it.

    Args:
        argument, given, allowed, note: as of an `ArgumentError`; the rule is given.
        t, run, instance, arm: the index t of the sample (`view.t`), the run, in a batch the
            instance, and an arm out of range; None for other faults. Scores have no arm.
    """


@dataclasses.dataclass(eq=False, repr=False)
class _RemedyError(JaxelimError, RuntimeError):
    """Something is wrong around a call, and can be mended.

    Args:
        problem: what is wrong, in words.
        remedy: what to do about it.
    """

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


class SetupError(_RemedyError):
    """The process or JAX's settings prevent jaxelim from computing."""


class WorkerError(_RemedyError):
    """A worker has died, or has other versions and could compute other numbers."""


@dataclasses.dataclass(eq=False, repr=False)
class Interrupted(_Fields, KeyboardInterrupt):
    """Ctrl-C ended a call of `simulate`.

    Args:
        problem: what was done, in words.
        result: a `Result` of the runs in finished blocks, of `study` a `Study`; None if
            there is none.
    """

    problem: str
    result: Any = None

    def __str__(self) -> str:
        return self.problem


class StarvationWarning(UserWarning):
    """A sampling rule may hardly ever gather the evidence that a proven test asks for."""


@dataclasses.dataclass(eq=False, repr=False)
class StoreError(JaxelimError):
    """A file or folder of stored results cannot be read or written.

    Args:
        path: the file or folder.
        problem: what is wrong, in words.
    """

    path: Any
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"

    @classmethod
    def refuse_other(cls, path: Any, version: int, known: int) -> None:
        """Raise this error where the format of a file is another than the known one."""
        if version != known:
            raise cls(path, f"its format is {version}; this version of jaxelim reads {known}")


class DamagedFileError(StoreError):
    """A block or a file of results, or the file of a live run, is not as it was written."""


class LiveFileWarning(UserWarning):
    """A rule chooses other arms than the file of a live run records; those stay."""


@dataclasses.dataclass(eq=False, repr=False)
class OverError(JaxelimError, RuntimeError):
    """A live run that has ended was to go on.

    Args:
        answer: the arms of its answer, as the caller named them; empty if it was ended by
            hand.
        samples: rewards until the run ended.
    """

    answer: Any
    samples: int

    def __str__(self) -> str:
        how = f"with the answer {abbreviate(list(self.answer))}" if self.answer else "by hand"
        return f"the run ended after {self.samples} rewards, {how}, for good"


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the library that called it, past the contexts that it entered."""
    level, frame = 2, sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if not name.startswith("jaxelim.") and name not in ("jaxelim", "contextlib"):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def unknown_name(argument: str, given: Any, known: Iterable[str]) -> ArgumentError:
    """The error of an unknown name: with the known names, and the one most similar to it."""
    names = tuple(known)
    lowered = {name.lower(): name for name in reversed(names)}
    asked = given.lower() if isinstance(given, str) else ""
    near = difflib.get_close_matches(asked, lowered, n=1, cutoff=_NEAR)
    allowed = ", ".join(map(repr, names)) or "nothing: no name is known"
    note = f"nearest: {lowered[near[0]]!r}" if near else ""
    return ArgumentError(argument, given, allowed, note)


def undefined(thing: Any, method: str) -> TypeError:
    """The error of a contract's method that a class does not define."""
    return TypeError(f"{type(thing).__name__} does not define {method}")


_shortener = reprlib.Repr()
_shortener.maxlevel = 3
_shortener.maxstring = _shortener.maxother = _shortener.maxlong = 100


def in_words(error: BaseException) -> str:
    """The type of an exception and the first line of its text."""
    text = (str(error).strip() or "no message").split("\n")[0]
    return f"{type(error).__name__}: {text if len(text) <= 200 else text[:197] + '...'}"


def abbreviate(value: Any) -> str:
    """Show `value` in one line of at most 160 characters; of long arrays the shape and the ends."""
    try:
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            value = value.item()
        if isinstance(value, np.ndarray):
            edge = 2 if value.ndim < 2 else 1
            text = np.array2string(value, threshold=8, edgeitems=edge, separator=", ")
            if value.size > 8 or value.size == 0 or value.ndim > 1:
                text = f"an array of shape {value.shape}: {text}"
        else:
            text = _shortener.repr(value)
    except Exception:  # a message must not fail because its value cannot be printed
        text = f"a {type(value).__name__} that cannot be shown"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

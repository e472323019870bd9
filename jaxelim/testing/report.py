"""What a check of a contract says: a report, or the law that is broken."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxelim.errors import JaxelimError
from jaxelim.progress import by_parts
from jaxelim.simulation.results.result import Result

LUCK = 1e-6
"""The chance that a statistical check fails what is right."""


class ContractError(JaxelimError, AssertionError):
    """A law that a rule, family, problem or threshold has to keep is broken."""


@dataclasses.dataclass(frozen=True)
class Report:
    """What was checked, a line each.

    Attributes:
        subject: the repr of what was checked.
        lines: the laws that held, and the rates.
        verdict: of the whole check, in a word or two. A law that is broken gives no
            report but a `ContractError`.
        head: what was tried, and what the verdict does not say: the first lines of the text.
    """

    subject: str
    lines: tuple[str, ...]
    verdict: str = dataclasses.field(default="passed", kw_only=True)
    head: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)

    def __str__(self) -> str:
        first = f"{self.subject}: {self.verdict}"
        return "\n".join([first, *(f"  {line}" for line in (*self.head, *self.lines))])


def lines_of(
    parts: Sequence[tuple[str, Callable[[], str | list[str]]]], progress: Any
) -> list[str]:
    """The lines of the parts of a check, pairs of a name and a function, with progress."""
    found = by_parts(parts, progress)
    return [line for one in found for line in ([one] if isinstance(one, str) else one)]


def require(holds: Any, sentence: str) -> None:
    """Raises:
    ContractError: the law of this sentence is broken.
    """
    if not holds:
        raise ContractError(sentence)


def same_runs(
    one: Result, other: Result, what: str, take: Any = slice(None), stops: slice = slice(None)
) -> None:
    """Require the same runs of two results; `take`, `stops`: which runs and stops of the first."""
    for name in ("samples", "stopped", "answer", "pulls"):
        equal = np.array_equal(getattr(one, name)[stops][:, :, take], getattr(other, name))
        require(equal, f"{name} differ: {what}")

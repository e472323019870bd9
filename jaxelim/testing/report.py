"""What a check of a contract says: a report, or the law that is broken."""

import dataclasses
from typing import Any

import numpy as np

from jaxelim.errors import JaxelimError
from jaxelim.simulation.results.result import Result

LUCK = 1e-6
"""The chance that a statistical check fails what is right."""


class ContractError(JaxelimError, AssertionError):
    """A law that a rule, family, problem or threshold has to keep is broken."""


@dataclasses.dataclass(frozen=True)
class Report:
    """What was checked, a line each."""

    subject: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.subject, *(f"  {line}" for line in self.lines)])


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

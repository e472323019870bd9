"""What a threshold reads of a call to say whether its proof covers it.

A threshold may have a method `proof(call)`, of a `Call`. It returns True, or a sentence why not,
and raises `UnsupportedError` where the call contradicts its terms.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxelim.checks import integer, shipped
from jaxelim.errors import ArgumentError, UnsupportedError, in_words

if TYPE_CHECKING:
    from jaxelim.contracts import Problem, SamplingRule, StoppingRule
    from jaxelim.contracts.family import Family

GAUSSIAN = "gaussian"  # of known variances
UNKNOWN_VARIANCE = "gaussian of unknown variance"
ONE_PARAMETER = "one-parameter"  # an exponential family
BOUNDED = "bounded"  # any law in an interval
LAWS = (GAUSSIAN, UNKNOWN_VARIANCE, ONE_PARAMETER, BOUNDED)
"""Laws of rewards that proofs know."""

STOPS = ("llr", "selective", "full")  # they end a run once every piece of the answer is refuted
INTERVALS = "intervals"  # native test: the intervals of the means at level beta part
LLR_OF_PAIRS = "llr of pairs"  # native test: the LLRs of pairs of arms exceed beta
REFUTING = (*STOPS, INTERVALS, LLR_OF_PAIRS)
"""Endings that refute pieces of which one is true where the answer is wrong.

Where the intervals of two arms part, the LLR of their pair is at least beta.
"""


@dataclasses.dataclass(frozen=True)
class Call:
    """A checked call with one of its stopping rules, and noise of the source's law."""

    family: "Family"
    law: str  # of the rewards, one of `LAWS`; or why proofs do not cover them
    problem: "Problem"
    rule: "SamplingRule"
    stopping: "StoppingRule"
    elimination: Any
    ridge: float | None
    structure: str  # "linear" or "unstructured"
    arms: int  # K
    dimension: int  # d
    longest: float  # max_k ||phi_k||, over all instances of a batch
    theta_norm: float | None  # ||theta|| in units of the noise, the largest; None in a live run
    most: int | None = None  # how many arms are ever in, where some join a live run or leave it

    def other_law(self, what: str) -> str:
        """The reason why a proof for `what`, some rewards, does not cover those of the call."""
        return f"it is proven for {what}" if self.law in LAWS else self.law

    @property
    def wrong_answers(self) -> int | None:
        """`Problem.wrong_answers`; None where it is not that of the problem's own pieces."""
        known = states(self.problem, "wrong_answers")
        return wrong_answers(self.problem, self.arms, self.most) if known else None

    @property
    def endings(self) -> tuple[str, ...]:
        """What may end a run: of `REFUTING`, or sentences why proofs do not cover a test."""
        tests, rule, name = [], self.rule, self.stopping.name
        if name != "native":
            known = shipped(self.stopping) and name in STOPS
            tests.append(name if known else f"no proof of the stopping rule {name!r} is known")
        if name == "native" or rule.traits.native == "always":
            own = rule.native_test if states(rule, "native_test") else ""
            if rule.traits.elimination and not getattr(self.elimination, "shared", True):
                own = "its native test passes over what the resets eliminated"
            other = f"no proof of the native test of {type(rule).__name__} is known"
            tests.append(own or other)
        return tuple(tests)

    def uncovered(self, endings: Sequence[str], what: str) -> str:
        """Why a proof of these endings, `what` in words, does not cover the call; else empty."""
        for ending in self.endings:
            if ending not in endings and ending in REFUTING:
                native = "" if ending in STOPS else ", and a native test may end these runs"
                return f"it is proven for {what}{native}"
            if ending not in endings:
                return ending
        return ""


def wrong_answers(problem: Any, arms: int, most: int | None = None) -> int | None:
    """`problem.wrong_answers(arms)`, or all pairs of `most` arms and a reference; None: unknown."""
    if most is not None:
        return math.comb(most + (problem.reference is not None), 2)
    allowed = "a problem whose wrong_answers(arms) returns an integer >= 1, or None"
    try:
        number = problem.wrong_answers(arms)
        return None if number is None else integer("problem", number, low=1)
    except ArgumentError:
        note = f"it returned {number!r}"
        raise ArgumentError("problem", problem, allowed, note) from None
    except Exception as error:
        note = f"wrong_answers raised {in_words(error)}"
        raise ArgumentError("problem", problem, allowed, note) from error


def states(thing: Any, name: str) -> bool:
    """Whether what `name` says is known to hold: of the library's classes, or in its own body.

    A subclass of another class may have changed what that class has stated.
    """
    return shipped(thing) or name in vars(type(thing))


def proof_of(threshold: Any, call: Call) -> bool | str:
    """Whether the threshold's proof covers the call: True, or the reason why not.

    Raises:
        UnsupportedError: the call contradicts the threshold's terms.
        ArgumentError: the method raises, or returns something else.
    """
    proof = getattr(threshold, "proof", None)
    if proof is None:
        name = getattr(threshold, "__name__", None) or type(threshold).__name__
        return f"{name} states no proof"
    if not states(threshold, "proof"):
        return f"{type(threshold).__name__} is a subclass that states no proof of its own"
    allowed = "a threshold whose proof(call) returns True, or the reason why not as a string"
    try:
        verdict = proof(call)
    except UnsupportedError:
        raise
    except Exception as error:
        note = f"its proof raised {in_words(error)}"
        raise ArgumentError("threshold", threshold, allowed, note) from error
    if verdict is not True and not (isinstance(verdict, str) and verdict.strip()):
        raise ArgumentError("threshold", threshold, allowed, f"it returned {verdict!r}")
    return verdict

"""What a threshold reads of a call to say whether its proof covers it.

A threshold may have a method `proof(call)`, of a `Call`. It returns True, or the reason
why not, a sentence. It raises `UnsupportedError` where the call contradicts its terms. A
threshold without the method has no proof.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxelim.checks import shipped, wrong_answers
from jaxelim.errors import ArgumentError, UnsupportedError, in_words

if TYPE_CHECKING:
    from jaxelim.contracts import Problem, SamplingRule, StoppingRule
    from jaxelim.contracts.family import Family

GAUSSIAN = "gaussian"
"""Law of rewards: Gaussian, of known variances."""
UNKNOWN_VARIANCE = "gaussian of unknown variance"
"""Law of rewards: Gaussian, of unknown variances."""
ONE_PARAMETER = "one-parameter"
"""Law of rewards: a one-parameter exponential family."""
BOUNDED = "bounded"
"""Law of rewards: any, in an interval."""
LAWS = (GAUSSIAN, UNKNOWN_VARIANCE, ONE_PARAMETER, BOUNDED)

LLR, SELECTIVE, FULL = "llr", "selective", "full"
"""Stops that end a run once every piece of the answer was refuted."""
INTERVALS = "intervals"
"""Native test: the intervals of the means at level beta part."""
EQUAL_INTERVALS = "intervals of equal counts"
"""The same, where all arms that are left were pulled equally often."""
LLR_OF_PAIRS = "llr of pairs"
"""Native test: the LLRs of pairs of arms exceed beta."""
REFUTING = (LLR, SELECTIVE, FULL, INTERVALS, EQUAL_INTERVALS, LLR_OF_PAIRS)
"""Endings that refute pieces of which one is true where the answer is wrong.

Where the intervals of two arms part, the LLR of their pair is at least beta.
"""


@dataclasses.dataclass(frozen=True)
class Call:
    """A checked call with one of its stopping rules, and noise of the source's law.

    Where the caller gave the noise the engine says that no proof covers it.

    Attributes:
        family, problem, rule, stopping, elimination, ridge: of the call.
        law: of the rewards, one of the laws above; or why proofs do not cover them.
        structure: "linear" or "unstructured".
        arms: K.
        dimension: d.
        longest: max_k ||phi_k||, over all instances of a batch.
        theta_norm: ||theta|| in units of the noise, the largest of a batch. None where
            nobody knows it, in a live run.
        most: how many arms are ever in, where some join a live run or leave it.
    """

    family: "Family"
    law: str
    problem: "Problem"
    rule: "SamplingRule"
    stopping: "StoppingRule"
    elimination: Any
    ridge: float | None
    structure: str
    arms: int
    dimension: int
    longest: float
    theta_norm: float | None
    most: int | None = None

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
        tests, rule = [], self.rule
        native = self.stopping.name == "native"
        if not native:
            name = self.stopping.name
            other = f"no proof of the stopping rule {name!r} is known"
            known = shipped(self.stopping) and name in (LLR, SELECTIVE, FULL)
            tests.append(name if known else other)
        if native or rule.traits.native == "always":
            known = states(rule, "native_test")
            other = f"no proof of the native test of {type(rule).__name__} is known"
            if rule.traits.elimination and not getattr(self.elimination, "shared", True):
                known, other = False, "its native test passes over what the resets eliminated"
            tests.append(rule.native_test or other if known else other)
        return tuple(tests)

    def uncovered(self, endings: Sequence[str], what: str) -> str:
        """Why a proof of these endings does not cover the call; empty where it does.

        `what`: the endings of the proof, in words.
        """
        for ending in self.endings:
            if ending not in endings and ending in (LLR, SELECTIVE, FULL):
                return f"it is proven for {what}"
            if ending not in endings:
                native = f"it is proven for {what}, and a native test may end these runs"
                return native if ending in REFUTING else ending
        return ""


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

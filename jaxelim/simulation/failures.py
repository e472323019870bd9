"""The error of a run that cannot go on, in simulation and in live runs."""

from typing import NamedTuple

from jaxelim.checks import shipped
from jaxelim.engine import scores, watching
from jaxelim.errors import ArgumentError, FamilyError, RuleError
from jaxelim.simulation.experiment import Experiment

_WRONG = {
    watching.REWARD: ("a reward", "a draw(lanes, nature, arm, pull, noise) of finite rewards"),
    watching.MEANS: ("an estimate", "rewards and statistics whose means are finite"),
    watching.EVIDENCE: ("an LLR", "evidence whose values() are finite"),
    watching.INTERVAL: ("an interval", "an interval(seen, means, beta) without NaN"),
    watching.POSTERIOR: ("a posterior draw", "a posterior(key, counts, means) of finite means"),
}
"""What was not finite, and what is allowed, in words."""


class Place(NamedTuple):
    """Where a run failed."""

    t: int  # of its samples
    run: int
    instance: int | None = None  # in a batch
    live: bool = False  # rewards come from outside

    def after(self, more: str = "samples") -> str:
        """After how many samples, in words."""
        return f"after {self.t} rewards" if self.live else f"after {self.t} {more} of {self.whose}"

    @property
    def at(self) -> str:
        """At which sample, in words."""
        return f"after {self.t} rewards" if self.live else f"at t = {self.t} of {self.whose}"

    @property
    def whose(self) -> str:
        """The run, in words."""
        batched = self.instance is not None
        return f"run {self.run}" + (f" of instance {self.instance}" if batched else "")


def failure(call: Experiment, arm: int, answer: int, fault: int, place: Place) -> ArgumentError:
    """The error of a run that has failed.

    Args:
        call: the call.
        arm, answer: out of range; 0 for none.
        fault: as `Lane.fault`.
        place: where.
    """
    where = place.t, place.run, place.instance
    if fault:
        return _of_a_number(call, fault, place)
    if arm == int(scores.NO_NUMBER):
        note = f"it chose among scores that are NaN {place.at}"
        return RuleError(call.rule, "a rule whose scores are numbers", note, None, *where)
    if arm:
        allowed = f"a rule that chooses arms from 0 to {call.instance.K - 1}"
        return RuleError(call.rule, allowed, f"it chose arm {arm} {place.at}", arm, *where)
    argument, allowed = call.problem.in_range(call.instance.K)
    note = f"it gave {answer} {place.after()}"
    return ArgumentError(argument, call.problem, allowed, note)


def _of_a_number(call: Experiment, fault: int, place: Place) -> ArgumentError:
    """The error of a number that is not finite: of the family, or of a user's problem."""
    family, (what, allowed) = call.instance.family, _WRONG[fault]
    first = place.t <= call.initial_pulls * call.instance.K
    at = place.at if fault == watching.REWARD and not first else place.after()
    if fault == watching.MEANS and shipped(family):
        at = f"within the first {place.t} samples of {place.whose}"  # seen at the chunk's end
    note = f"{what} was not finite {at}"
    if fault == watching.EVIDENCE and shipped(family) and not shipped(call.problem):
        allowed = "a shape(seen, answer) whose pieces have finite LLRs"
        return ArgumentError("problem", call.problem, allowed, note)
    return FamilyError("family", family, allowed, note, place.t, place.run, place.instance)

"""The error of a run that cannot go on, in simulation and in live runs."""

from typing import Any, NamedTuple

import numpy as np

from jaxelim.checks import shipped
from jaxelim.engine import Carry, watching
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

    def said(self, words: str) -> str:
        """After how many rewards of a live run, else `words` with t and the run, in words."""
        of = "" if self.instance is None else f" of instance {self.instance}"
        return f"after {self.t} rewards" if self.live else f"{words} of run {self.run}{of}"


def failure_of(call: Experiment, carry: Carry) -> ArgumentError:
    """The error of a carry with failed runs: of the lowest index in the earliest chunk."""
    lane, run = carry.lane, carry.lane.run
    steps = np.broadcast_to(np.asarray(carry.iterations)[..., None], run.index.shape)
    numbers = lane.fault, lane.stats.t, run.instance, run.index, steps
    rows = np.stack([np.ravel(x) for x in numbers])
    failed = rows[:, rows[0] != 0]
    fault, t, instance, index, _ = map(int, failed[:, np.lexsort(failed[2:])[0]])
    return failure(call, fault, Place(t, index, instance if call.instance.batched else None))


def failure(call: Experiment, fault: int, place: Place) -> ArgumentError:
    """The error of a run that has failed, by its `Lane.fault`."""
    value, code = divmod(fault, 8)
    t, where, family = place.t, place[:3], call.instance.family
    at, after = place.said(f"at t = {t}"), place.said(f"after {t} samples")
    if code in _WRONG:  # a number that is not finite: of the family, or of a user's problem
        what, allowed = _WRONG[code]
        if code == watching.MEANS and shipped(family):  # seen at the chunk's end
            after = place._replace(live=False).said(f"within the first {t} samples")
        first = t <= call.initial_pulls * call.instance.K
        note = f"{what} was not finite {at if code == watching.REWARD and not first else after}"
        if code == watching.EVIDENCE and shipped(family) and not shipped(call.problem):
            allowed = "a shape(seen, answer) whose pieces have finite LLRs"
            return ArgumentError("problem", call.problem, allowed, note)
        return FamilyError("family", family, allowed, note, *where)
    if code == watching.ARM and value == int(watching.NO_NUMBER):
        note = f"it chose among scores that are NaN {at}"
        return RuleError("rule", call.rule, "a rule whose scores are numbers", note, *where)
    if code == watching.ARM:
        allowed = f"a rule that chooses arms from 0 to {call.instance.K - 1}"
        return RuleError("rule", call.rule, allowed, f"it chose arm {value} {at}", *where, value)
    argument, allowed = call.problem.in_range(call.instance.K)
    return ArgumentError(argument, call.problem, allowed, f"it gave {value} {after}")


def refuse_degenerate(call: Experiment, arms: Any, row: np.ndarray, instance: np.ndarray) -> None:
    """Refuse rewards that contradict the family, of runs [R] at rows of given noise [R].

    `arms`: 1 + an arm whose rewards are all equal, [R], 0 for none; None: never.
    """
    if arms is None or not arms[: row.size].any():
        return
    bad = np.flatnonzero(arms[: row.size])
    at = bad[np.lexsort([instance[bad], row[bad]])[0]]
    where = f"run {call.runs[row[at]]}" + (f" of instance {instance[at]}" * call.instance.batched)
    argument, value = ("instance", call.instance) if call.noise is None else ("noise", call.noise)
    note = f"the rewards of arm {int(arms[at]) - 1} in {where} are all equal"
    raise ArgumentError(argument, value, f"rewards that {call.instance.family!r} can draw", note)

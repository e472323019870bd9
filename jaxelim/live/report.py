"""What a live run shows: a table, and what it means in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from jaxelim.contracts.proofs import GAUSSIAN, UNKNOWN_VARIANCE
from jaxelim.contracts.returned import traced_shape
from jaxelim.problems.arms import BestArm
from jaxelim.simulation.results.confidence import Intervals
from jaxelim.simulation.results.proven import sentence
from jaxelim.thresholds.mixture import Mixture

if TYPE_CHECKING:
    from jaxelim.live.forecast import LiveForecast
    from jaxelim.live.run import LiveRun
    from jaxelim.tables import Table

PAGE = "See docs/how-to/live-runs.md."
FORECAST = (
    "How many more rewards it needs, by simulating it on from its estimates: "
    f"summary(forecast=True), or jaxelim live show FILE --forecast. {PAGE}"
)
"""What an open run says that has no forecast."""
FEWEST = 100
"""Fewest rewards of an arm of which a share of equal ones is judged."""
ALPHA = 1e-5
"""The chance of a false alarm at one look, of the test of the variance."""
_ALONE = 16
"""How much more of its stakes on one arm an interval of bounded rewards keeps than a pair does."""


class Report:
    """What is said of a live run as it is now."""

    def __init__(self, run: "LiveRun"):
        self.run, self.call, self.counts = run, run._fold.call, run.counts
        self.delta, self.p = float(self.call.delta[0]), None
        self.leader: Any = None
        self.began, problem = run._state.lane is not None, self.call.problem
        self.levels = traced_shape(problem, self.call.instance.K, self.call.instance.d).signs
        self.of_arms = self.began and problem.answer_axis is None
        if self.of_arms:
            self.answer, p = run._public(), run.p_values
            self.p = None if p is None or np.isnan(p.answer) else p.arms
            if not self.levels:
                one = self.answer.sum() == 1
                self.leader = int(np.argmax(self.answer if one else run.means))

    def summary(self, forecast: "LiveForecast | None" = None) -> "Table":
        """A table with a row for each arm, and the state of the run in words."""
        from jaxelim.tables import Table  # pandas is slow to import

        run, family = self.run, self.call.instance.family
        notes = [self.standing()]
        if self.began:
            if not run.ended_by_hand:
                notes.append(sentence(self.call.threshold, run.proven, self.call.instance))
            notes += [*doubt(family, run._rewards()), *self._columns()]
            if (most := self.call.instance.most) is not None:
                ever = list(run._members()[1])
                left = ", ".join(name for name in ever if name not in run.names) or "none"
                notes.append(f"{len(ever)} of at most {most} arms have been in; removed: {left}. "
                             "Times count the rewards of those that are in, and p is the least "
                             "since one last joined or left.")  # fmt: skip
            if not run._state.ended:
                whose = f"Their arms are chosen by {self.call.rule!r}, the rule of this run."
                more = [FORECAST if forecast is None else f"{forecast} {whose} {PAGE}"]
                stack = self.call.instance.source is not None  # whose rest is not simulated
                notes += [*self._slack_that_ends(), *more[stack:]]
        title = f"{self.call.rule!r}, {self.call.problem!r}, delta = {self.delta:g}"
        return Table(self._rows(), title, notes)

    def _differences(self, pairs: int) -> Intervals:
        """The means less the leader's, with intervals of so many pairs at once: [1, K - 1]."""
        others = np.delete(np.arange(self.counts.size), self.leader)
        leader, means = np.full_like(others, self.leader), self.run._last_means("differences")
        return means.intervals(self.run._level(None), (others, leader), pairs)

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each arm, all with the same columns."""
        run, k, costs = self.run, self.counts.size, self.call.instance.costs
        columns: dict[str, Any] = {"arm": run.names, "pulls": self.counts, "mean": run.means}
        if costs is not None:
            columns["cost"] = self.counts * costs
        known = run.known_intervals
        if known is not None:
            columns |= {"low": known.low, "high": known.high}
            if self.leader is not None and k > 1:
                most = self.call.instance.most or k
                off = self._differences(most * (most - 1) // 2)
                ends = {"difference": off.values, "diff low": off.low, "diff high": off.high}
                columns |= {name: np.insert(x[0], self.leader, 0.0) for name, x in ends.items()}
        if self.p is not None:
            columns["p"] = self.p
        columns["state"] = [self._state(arm) for arm in range(k)]
        plain = [x.tolist() if isinstance(x, np.ndarray) else x for x in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]

    def _state(self, k: int) -> str:
        """What the run says of an arm, and since when."""
        times, words = self.run.elimination_times, []
        if not self.of_arms:
            return ""
        if self.answer[k]:
            words.append("answer" if self.run.stopped else "above" if self.levels else "leads")
        elif self.levels:
            words.append("below")
        if times is not None and times.shape == self.counts.shape and times[k]:
            words.append(f"{'decided' if self.levels else 'eliminated'} at {times[k]}")
        return ", ".join(words)

    def standing(self) -> str:
        """The state of the run in one sentence, and what an answer needs."""
        run, costs = self.run, self.call.instance.costs
        if not self.began:
            due = dict.fromkeys(str(run.names[k]) for k in run._fold.due(run._state))
            return f"{run.told} rewards; a check needs the first of {', '.join(due)}."
        spent = "" if costs is None else f" at a cost of {float(self.counts @ costs):.6g}"
        after, more = f"after {run.samples} rewards{spent}", run.told - run.samples
        later = f". {more} rewards came after that: all columns but p count them." if more else "."
        if run.ended_by_hand:
            ended = f"The run was ended by hand {after}{later}"
            return f"{ended} There is no answer; intervals and p hold."
        answer = ", ".join(map(str, run.answer_arms)) or "no arm"
        answer += "" if self.p is None else f" (p = {float(np.nanmax(self.p)):.2g})"
        if run.stopped:
            epsilon = self.call.problem.epsilon
            slack = f", whose mean is within {epsilon:g} of the largest" if epsilon else ""
            if epsilon and not run.answer_arms and not self.levels:
                slack = f": none is better than the reference by {epsilon:g}"
            if epsilon and self.levels:
                slack = f"; an arm within {epsilon:g} of the level may be on either side"
            above = "above the level: " if self.levels else ""
            return f"The run stopped {after}. The answer: {above}{answer}{slack}{later}"
        leads, needed = "Above the level" if self.levels else "In the lead", run.evidence
        if self.p is not None:
            words = f"a p of at most {self.delta:g}"
        else:
            kind = "log e (1/e is a p-value)" if "log_e" in needed else "log-likelihood ratio"
            words = f"a {kind} above {needed['needed'].max():.4g} against each alternative"
        if self.call.instance.source is not None:
            words += ", or all rewards of the stacks"
        return f"The run is open {after}. {leads}: {answer}; an answer needs {words}."

    def _columns(self) -> list[str]:
        """What the columns are."""
        run, notes = self.run, []
        if not run._no_intervals:
            words = "low, high: the interval of the mean, for all arms at once."
            if self.leader is not None and self.counts.size > 1:
                words += (
                    f" difference: the mean less that of {run.names[self.leader]}; diff low, diff "
                    "high: its interval, for all pairs of arms at once."
                )
            words += f" They hold at every look with probability {run._level(None):.4g}."
            notes.append(words)
        if self.p is not None:
            notes.append(
                f"p: the p-value of the {'answer' if run.stopped else 'lead'}'s being wrong about "
                "the arm, the least so far. It holds for all arms at once, at every look. So where "
                "a test with one look has 0.05 it may be 1: see "
                "docs/explanation/sequential-ab-tests.md."
            )
        return notes

    def _slack_that_ends(self) -> list[str]:
        """An epsilon at which a run with these rewards would end; the least for most families."""
        arms, threshold = self.call.instance, self.call.threshold
        family: Any = arms.family
        slack = family.slack and arms.structure == "unstructured"
        known = isinstance(threshold, Mixture) and slack and not self.run._no_intervals
        if self.call.problem != BestArm() or not known:
            return []
        assert threshold.pieces is not None
        pieces = threshold.pieces * (_ALONE if family.name == "bounded" else 1)
        most = 1.005 * float(self._differences(pieces).high.max())  # so rounded up
        if not 0 < most < family.high - family.low:
            return []
        return [
            f"No arm is better than {self.run.names[self.leader]} by {most:.3g}, with the same "
            f"probability. If so much does not matter, BestArm(epsilon={most:.3g}) would end this "
            "run now."
        ]


def doubt(family: Any, rewards: Mapping[Any, np.ndarray]) -> list[str]:
    """Why the rewards of arms are not those of the family, in words; [] where nothing is found.

    Gaussian and exponential rewards: more than half of 100 or more rewards of an arm are equal.
    Rewards with a density are never equal; rounded to half a standard deviation, with probability
    below 1e-8. Gaussian rewards of a known standard deviation: their variance is larger, by
    the chi-square test at level `ALPHA`.
    """
    law, found = family.stated_law(), ""
    if law not in (GAUSSIAN, UNKNOWN_VARIANCE) and family.name != "exponential":
        return []
    if law == GAUSSIAN:
        stds = np.broadcast_to(family.std, len(rewards)).tolist()
        some = [(x, std) for x, std in zip(rewards.values(), stds, strict=True) if x.size]
        squares = sum(x.size * x.var() / std**2 for x, std in some)
        freedom = sum(x.size - 1 for x, _ in some)
        if freedom and scipy.special.chdtrc(freedom, squares) < ALPHA:
            times = (squares / freedom) ** 0.5
            found = f"their standard deviation is {times:.3g} times that of {family!r}"
    for name, of_arm in rewards.items():
        values, counts = np.unique(of_arm, return_counts=True)
        if of_arm.size >= FEWEST and counts.max() > of_arm.size / 2:
            share, value = counts.max() / of_arm.size, values[counts.argmax()]
            found = f"{share:.0%} of the rewards of {name} are {value:g}"
            break
    return [] if not found else [
        f"WARNING: {found}. So the rewards are not of this law, and nothing here is proven: not "
        "the answer, p or intervals. Bounded(low, high) needs no law but an interval of the "
        "rewards."
    ]  # fmt: skip

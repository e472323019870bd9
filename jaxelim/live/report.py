"""What a live run shows: its evidence, p-values and a table, and what they mean in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.proofs import GAUSSIAN, UNKNOWN_VARIANCE, wrong_answers
from jaxelim.lanes import LaneOps
from jaxelim.problems.arms import BestArm
from jaxelim.returned import traced_shape
from jaxelim.simulation.results.confidence import Intervals
from jaxelim.simulation.results.summaries import sentence
from jaxelim.thresholds import Mixture

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


class PValues(NamedTuple):
    """p-values of the pieces of a run; valid at every look, so at any stop.

    They hold where the rewards are independent draws of the family. One of these holds
    at a time: which depends on what was said before the run.

    Attributes:
        pairs: float64 [i, k], of mu_i <= mu_k - epsilon; of items likewise. With a
            reference [K + 1, K + 1], the reference last. [K, 2] for signs, of
            mu_k >= level + epsilon and of mu_k <= level - epsilon. It is valid for one
            piece that was named beforehand: P(p <= a) <= a where the piece holds the truth.
        together: float64, shape of `pairs`: all of them at once, for pairs that were chosen
            by looking.
        arms: float64, shape of the answer: of the answer's being wrong about each arm. It
            holds for all arms at once. NaN where the number of wrong answers is not known.
        answer: float64, the largest of `arms`. Valid for the answer of the run, whatever
            it is: P(p <= a and the answer is wrong) <= a.
    """

    pairs: np.ndarray
    together: np.ndarray
    arms: np.ndarray
    answer: float

    @staticmethod
    def of(log_e: np.ndarray, answer: np.ndarray, call: Any) -> "PValues":
        """From the largest log e of each piece, [i, k] or [K, 2], and the answer, [W] bool."""
        instance, problem = call.instance, call.problem
        linear = instance.structure == "linear"  # one mixture covers all directions at once
        wrong: Any = 1 if linear else wrong_answers(problem, instance.K, instance.most)
        pairs, n, arms = np.exp(-np.maximum(log_e, 0)), len(log_e), answer.size
        # Where two means are equal both pieces hold the truth, by one martingale or by two.
        up, down = instance.family.priors(call.threshold.grid)
        both = 1 if up is down else 2
        if traced_shape(problem, instance.K, instance.d).signs:
            count, tested = n * both, np.where(answer, pairs[:, 1], pairs[:, 0])
        else:
            if n > arms:  # the reference, which is the answer of no arm
                answer = np.append(answer, not answer.any())
            count = (wrong if instance.most else n * (n - 1) // 2) * both
            # The best arm is another k only if all pieces {mu_i <= mu_k} hold the truth.
            best = type(problem) is BestArm and not problem.epsilon
            against = np.where(answer[:, None] & ~answer, pairs.min(0) if best else pairs, 0)
            tested = np.maximum(against.max(0), against.max(1))[:arms]
        of_arms = np.minimum(1, (np.nan if wrong is None else wrong) * tested)
        together = pairs if linear else np.minimum(1, count * pairs)
        return PValues(pairs, together, of_arms, np.fmax.reduce(of_arms))


def evidence(looked: dict[str, Any], p_values: PValues | None, call: Any) -> "Table":
    """The table of `Look.evidence`, from the arrays of `fold.look`."""
    from jaxelim.tables import Table  # pandas is slow to import

    shape, arms, beta = looked["shape"], call.instance, float(looked["beta"])
    places: Any = np.flatnonzero(shape.exists).astype(np.int32)
    pieces, at = list(map(str, places)), None
    if isinstance(shape, Pairs):
        at = (places, shape.above[places] * 1) if shape.signs else shape.pair(LaneOps(), places)
        if call.problem.answer_axis is None:
            traced: Any = traced_shape(call.problem, arms.K, arms.d)  # in the caller's units
            above = looked["public"]
            both = np.broadcast_arrays(*shape.arms(LaneOps(), places))
            pieces = [f"{arms.label(i)} > {arms.label(k)}" if i != k else
                      f"{arms.label(i)} > {traced.level - traced.slack:g}" if above[i] else
                      f"{arms.label(i)} < {traced.level + traced.slack:g}"
                      for i, k in np.transpose(both).tolist()]  # fmt: skip
    columns: dict[str, Any] = {"piece": pieces, "llr": looked["llr"][places]}
    said = "Log-likelihood ratio"
    if "log_e" in looked:
        columns["log_e"] = looked["log_e"][places]
        said = "Evidence (log e, where 1/e is a p-value)"
    columns |= {"needed": np.full(len(pieces), beta), "active": looked["active"][places]}
    if p_values is not None and at is not None:
        columns |= {"p": p_values.pairs[at], "p_together": p_values.together[at]}
    values = [x if isinstance(x, list) else x.tolist() for x in columns.values()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    return Table(rows, f"{said} of each comparison; the run needs more than {beta:.4g}")


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
        both = others, np.full_like(others, self.leader)
        return self.run._intervals("differences", self.run._level(None), both, pairs)

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

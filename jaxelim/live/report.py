"""What a live run shows: a table, what it means in words, and a figure."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim.live.doubts import doubt
from jaxelim.problems.best_arm import BestArm
from jaxelim.problems.lanewise import traced_shape
from jaxelim.simulation.results.confidence import Intervals
from jaxelim.simulation.results.proven import sentence
from jaxelim.simulation.results.result import Summary
from jaxelim.thresholds.mixture import Mixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxelim.live.live_forecast import LiveForecast
    from jaxelim.live.run import LiveRun

PAGE = "See docs/how-to/live-runs.md."
FORECAST = (
    "How many more rewards it needs, by simulating it on from its estimates: "
    f"summary(forecast=True), or jaxelim live show FILE --forecast. {PAGE}"
)
"""What an open run says that has no forecast."""


def summary(run: "LiveRun", forecast: "LiveForecast | None" = None) -> Summary:
    """A table with a row for each arm, and the state of the run in words."""
    settings = run.settings
    title = f"{settings['rule']!r}, {settings['problem']!r}, delta = {settings['delta']:g}"
    shown = _Shown(run)
    return Summary(title, tuple(shown.rows()), tuple(shown.notes(forecast)))


def standing(run: "LiveRun") -> list[str]:
    """How far a run is, in words: the first note of its summary."""
    return [_Shown(run).standing()]


def described(run: "LiveRun") -> str:
    """A live run in one line: the rule, the arms, the rewards so far and its state."""
    state = "open"
    if run.ended_by_hand:
        state = "ended by hand"
    elif run.stopped:
        state = f"stopped: {', '.join(map(str, run.answer_arms))}"
    rule = type(run.settings["rule"]).__name__
    return f"<LiveRun of {rule}, {len(run.names)} arms, {run.told} rewards, {state}>"


def figure(run: "LiveRun") -> "Figure":
    """The evidence beside what is needed, and the arms' intervals and pulls."""
    from jaxelim.figures.live import live_figure  # matplotlib is slow to import

    now, arms = run.evidence, [str(name) for name in run.names]
    known = None if run._no_intervals else run.intervals()
    ends = None if known is None else (known.low, known.high, known.level)
    values, words = (now.llr, "LLR") if now.log_e is None else (now.log_e, "log e")
    title = "ended by hand"
    if not run.ended_by_hand:
        named = ", ".join(map(str, run.answer_arms)) or "no arm"
        title = f"stopped: {named}" if run.stopped else f"open: {named} in the lead"
    return live_figure(
        now.labels, values, now.beta, now.active, arms, run.means, run.counts, words, ends, title
    )


class _Shown:
    """The parts of a summary."""

    def __init__(self, run: "LiveRun"):
        self.run, self.call = run, run._job.call
        self.counts, self.means = run.counts, run.means
        self.answer: Any = run.answer
        self.began, problem = run._moment.lane is not None, self.call.problem
        self.levels = traced_shape(problem, *self.call.instance.arms.shape).signs
        self.of_arms = self.began and problem.answer_axis is None
        self.p: Any = None
        self.leader: Any = None
        if run.ended_by_hand:
            self.answer = run._job.look(run._moment)["public"]
        if not self.of_arms:
            return
        if run.p_values is not None and not np.isnan(run.p_values.answer):
            self.p = run.p_values.arms
        if not self.levels:
            one = self.answer.sum() == 1
            self.leader = int(np.argmax(self.answer if one else self.means))

    def differences(self, pairs: int) -> Intervals:
        """The means less the leader's, with intervals of so many pairs at once: [1, K - 1]."""
        others = np.delete(np.arange(self.counts.size), self.leader)
        leader, means = np.full_like(others, self.leader), self.run._last_means("differences")
        return means.differences(others, leader, self.run._level(None), pairs)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each arm, all with the same columns."""
        run, k = self.run, self.counts.size
        columns: dict[str, Any] = {"arm": run.names, "pulls": self.counts, "mean": self.means}
        if self.call.instance.costs is not None:
            columns["cost"] = self.counts * self.call.instance.costs
        if self.began and not run._no_intervals:
            known = run.intervals()
            columns |= {"low": known.low, "high": known.high}
            if self.leader is not None:
                off = self.differences(k * (k - 1) // 2)
                for name, ends in zip(_DIFFERENCES, (off.values, off.low, off.high), strict=True):
                    columns[name] = np.insert(ends[0], self.leader, 0.0)
        if self.p is not None:
            columns["p"] = self.p
        columns["state"] = [self._state(arm) for arm in range(k)]
        plain = [x.tolist() if isinstance(x, np.ndarray) else x for x in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]

    def _state(self, k: int) -> str:
        """What the run says of an arm, and since when."""
        times, words = self.run.elimination_times, []
        if self.of_arms and self.answer[k]:
            words.append("answer" if self.run.stopped else "above" if self.levels else "leads")
        elif self.of_arms and self.levels:
            words.append("below")
        if times is not None and times.shape == self.counts.shape and times[k]:
            words.append(f"{'decided' if self.levels else 'eliminated'} at {times[k]}")
        return ", ".join(words)

    def notes(self, forecast: "LiveForecast | None") -> list[str]:
        """The state of the run, its guarantee, what the columns are, and what would end it."""
        run, notes = self.run, [self.standing()]
        if not self.began:
            return notes
        guarantee = sentence(self.call.threshold, run.proven, self.call.instance.family)
        notes += [guarantee] * (not run.ended_by_hand)
        notes += [*doubt(run), *self._columns()]
        if run.ended_by_hand or run.stopped:
            return notes
        rule = run.settings["rule"]
        whose = f"Their arms are chosen by {rule!r}, the rule of this run."
        more = FORECAST if forecast is None else f"{forecast} {whose} {PAGE}"
        return [*notes, *self._slack_that_ends(), more]

    def standing(self) -> str:
        """The state of the run in one sentence, and what an answer needs."""
        run, costs = self.run, self.call.instance.costs
        if not self.began:
            return f"{run.told} rewards; {run.first} are needed for the first check."
        spent = "" if costs is None else f" at a cost of {float(self.counts @ costs):.6g}"
        after, more = f"after {run.samples} rewards{spent}", run.told - run.samples
        later = "."
        if more:
            later = f". {more} rewards came after that: all columns but p count them."
        if run.ended_by_hand:
            ended = f"The run was ended by hand {after}{later}"
            return f"{ended} There is no answer; intervals and p hold."
        p = None if self.p is None else float(np.nanmax(self.p))
        answer = ", ".join(map(str, run.answer_arms)) or "no arm"
        answer += "" if p is None else f" (p = {p:.2g})"
        if run.stopped:
            epsilon = self.call.problem.epsilon
            slack = f", whose mean is within {epsilon:g} of the largest" if epsilon else ""
            return f"The run stopped {after}. The answer: {answer}{slack}{later}"
        leads = "Above the level" if self.levels else "In the lead"
        return f"The run is open {after}. {leads}: {answer}; an answer needs {self._needed()}."

    def _needed(self) -> str:
        """What an answer needs."""
        if self.p is not None:
            return f"a p of at most {self.run.settings['delta']:g}"
        now, words = self.run.evidence, "a log-likelihood ratio"
        values = now.llr
        if now.log_e is not None:
            values, words = now.log_e, "a log e (1/e is a p-value)"
        least = float(np.min(values[now.active], initial=np.inf))
        so_far = f"; the least is {least:.4g}" if least > -np.inf else ""
        return f"{words} above {now.beta:.4g} against each alternative{so_far}"

    def _columns(self) -> list[str]:
        """What the columns are."""
        run, notes = self.run, []
        if not run._no_intervals:
            words = "low, high: the interval of the mean, for all arms at once."
            if self.leader is not None:
                difference, low, high = _DIFFERENCES
                words += (
                    f" {difference}: the mean less that of {run.names[self.leader]}; {low}, {high}:"
                    " its interval, for all pairs of arms at once."
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
        most = 1.005 * float(self.differences(pieces).high.max())  # so rounded up
        if not 0 < most < family.high - family.low:
            return []
        leader = self.run.names[self.leader]
        return [
            f"No arm is better than {leader} by {most:.3g}, with the same probability. If so much "
            f"does not matter, BestArm(epsilon={most:.3g}) would end this run now."
        ]


_ALONE = 16
"""How much more of its stakes on one arm an interval of bounded rewards keeps than a pair does."""
_DIFFERENCES = ("difference", "diff low", "diff high")
"""The columns of differences to the leader."""

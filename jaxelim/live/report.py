"""What a live run shows: a table and a figure."""

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim.contracts.shapes import Levels
from jaxelim.contracts.slack import SlackRows
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

EQUAL = 1.0
"""The LLR of two arms below which they look equal: 1.4 standard errors apart."""
_FEW = 30
"""Fewest rewards of each arm before arms look equal."""
_ALONE = 16
"""How much more of its stakes on one arm an interval of bounded rewards keeps than a pair does."""

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
    """How far a run is, in words: the head of the notes of its summary, without intervals."""
    return _Shown(run).standing()


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
    """The evidence beside the level, and the arms' intervals and pulls."""
    from jaxelim.figures.live import live_figure  # matplotlib is slow to import

    now, arms = run.evidence, [str(name) for name in run.names]
    known = None if run._no_intervals else run.intervals()
    ends = None if known is None else (known.low, known.high, known.level)
    values, words = (now.llr, "LLR") if now.log_e is None else (now.log_e, "log e")
    answer = _named(run)
    title = f"stopped: {answer}" if run.stopped else f"open: {answer} in the lead"
    return live_figure(
        now.labels, values, now.beta, now.active, arms, run.means, run.counts, words, ends,
        "ended by hand" if run.ended_by_hand else title,
    )  # fmt: skip


def _named(run: "LiveRun") -> str:
    """The arms of the answer in words."""
    return ", ".join(map(str, run.answer_arms)) or "no arm"


class _Shown:
    """The parts of a summary."""

    def __init__(self, run: "LiveRun"):
        self.run, self.call = run, run._job.call
        self.counts, self.means, self.answer = run.counts, run.means, run.answer
        self.began = run._moment.lane is not None
        self.p_values = run.p_values if self.began else None
        self.reference = getattr(self.call.problem, "reference", None) is not None
        self.none = self.reference and self.answer is not None and not self.answer.any()
        shape = traced_shape(self.call.problem, self.call.instance.K, self.call.instance.d)
        self.levels = isinstance(shape, Levels)
        of_arms = self.call.problem.made_of_arms and not self.levels
        self.leader = self._leader() if self.began and of_arms else None
        low = getattr(self.call.instance.family, "low", -np.inf)
        self.relative = self.leader is not None and low >= 0 and self.means[self.leader] > 0

    @functools.cached_property
    def intervals(self) -> Intervals | None:
        """The intervals of all means; None where there are none."""
        return self.run.intervals() if self.began and not self.run._no_intervals else None

    def _leader(self) -> int:
        """The arm of the answer if it is one arm, else that of the largest mean."""
        if self.answer is not None and self.answer.sum() == 1:
            return int(np.argmax(self.answer))
        return int(np.argmax(self.means))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each arm, all with the same columns."""
        run, times = self.run, self.run.elimination_times
        rows = []
        for k, name in enumerate(run.names):
            row = {"arm": name, "pulls": int(self.counts[k]), "mean": float(self.means[k])}
            if self.intervals is not None:
                row |= {"low": float(self.intervals.low[k]), "high": float(self.intervals.high[k])}
            if self.leader is not None:
                row["lift"] = self._lift(k)
            p = self._p_value(k)
            if p is not None:
                row["p"] = p
            if times is not None and times.shape == self.counts.shape:
                row["out at"] = int(times[k]) or "-"
            if self.answer is not None and self.answer.size == self.counts.size:
                row["answer"] = "x" if self.answer[k] else ""
            rows.append(row)
        return rows

    def _lift(self, k: int) -> Any:
        """The mean over the leader's, less 1; the difference where means may be below 0."""
        if k == self.leader:
            return "-"
        own, best = self.means[k], self.means[self.leader]
        return f"{own / best - 1:+.1%}" if self.relative else float(own - best)

    def _p_value(self, k: int) -> Any:
        """Of the leader's being no better; of the side of a level; None: there is none.

        With a reference of the leader's being no better than that; of no arm as the answer
        that the arm is no worse.
        """
        if self.p_values is None:
            return None
        if self.levels:
            return float(self.p_values.together[k].min())
        if self.leader is None:
            return None
        first, second = self.leader, k
        if self.none:
            first = len(self.means)
        elif self.reference and k == self.leader:
            second = len(self.means)
        return "-" if first == second else float(self.p_values.together[first, second])

    def notes(self, forecast: "LiveForecast | None") -> list[str]:
        """The state of the run, its guarantee, and what the columns are."""
        run, standing = self.run, self.standing()
        if not self.began:
            return standing
        if run.ended_by_hand or run.stopped:
            return [*standing, *self._columns()]
        more = FORECAST if forecast is None else f"{forecast} {self._who_chooses()} {PAGE}"
        guarantee = sentence(run.settings["threshold"], run.proven)
        return [*standing, guarantee, *self._columns(), *self._equal(), more]

    def standing(self) -> list[str]:
        """The state of the run, and the guarantee of its answer if there is one."""
        run = self.run
        if not self.began:
            return [f"{run.told} rewards; {run.first} are needed for the first check."]
        if run.ended_by_hand:
            ended = f"The run was ended by hand after {run.samples} rewards{self._later()}"
            return [f"{ended} There is no answer; intervals and p-values hold."]
        answer, p = _named(run), self._answer_p
        shown = "" if p is None else f" (p = {p:.2g})"
        if run.stopped:
            ended = f"The run stopped after {run.samples} rewards. The answer: {answer}{shown}"
            guarantee = sentence(run.settings["threshold"], run.proven)
            return [f"{ended}{self._slack()}{self._later()}", guarantee]
        lead = f"No answer yet. In the lead, without guarantee: {answer}{shown}."
        if p is not None:
            lead += f" An answer is proven once p is at most {run.settings['delta']:g}."
        return [lead, f"The run is open after {run.told} rewards: {self._state()}."]

    def _slack(self) -> str:
        """What slack makes of the answer."""
        epsilon = self.call.problem.epsilon
        return f", whose mean is within {epsilon:g} of the largest" if epsilon else ""

    def _later(self) -> str:
        more = self.run.told - self.run.samples
        if not more:
            return "."
        words = f". {more} rewards came after that: pulls, means and intervals count them"
        return words + (", p-values do not." if self.p_values is not None else ".")

    def _who_chooses(self) -> str:
        """By which rule the simulated runs of a forecast choose arms."""
        return f"Their arms are chosen by {self.run.settings['rule']!r}, the rule of this run."

    def _state(self) -> str:
        now = self.run.evidence
        if now.log_e is None:
            least = float(np.min(now.llr[now.active], initial=np.inf))
            return f"least LLR of an active piece {least:.4g}, beta {now.beta:.4g}"
        least = float(np.min(now.log_e[now.active], initial=np.inf))
        shown = f"{least:.4g}" if least > -np.inf else "none yet"
        level = f"level {now.beta:.4g}"
        if isinstance(self.call.threshold, Mixture):
            level += f" = log({self.call.threshold.pieces}/delta)"
        return f"least log e of an active piece {shown}, {level}"

    def _columns(self) -> list[str]:
        """What the columns are."""
        notes = []
        if self.intervals is not None:
            notes.append(
                "low, high: intervals that hold for all arms at once, at every look, with "
                f"probability {self.intervals.level:.4g}."
            )
        if self.leader is not None:
            leader = self.run.names[self.leader]
            lift = "the difference of means"
            if self.relative:
                lift = f"mean/{self.means[self.leader]:.4g} - 1"
            notes.append(f"lift: over {leader}, {lift}.")
            if self.p_values is not None:
                notes.append(
                    f"p of an arm: of {self._against(leader)}. It holds for all pairs of "
                    "arms at once, at every look."
                )
        elif self.levels and self.p_values is not None:
            notes.append(
                "p of an arm: of the other side of the level. It holds for all arms at once, at "
                "every look."
            )
        if self._answer_p is not None:
            notes.append(
                "p of the answer: of its being wrong. It holds whichever answer it is, at every "
                "look."
            )
        return notes

    def _against(self, leader: Any) -> str:
        """What the p-value of an arm is of, in words."""
        if self.none:
            return "its being no worse than the reference"
        worse = "worse by epsilon or more" if self.call.problem.epsilon else "no better"
        own = f"; of {leader}, than the reference" if self.reference else ""
        return f"{leader} being {worse} than it{own}"

    @property
    def _answer_p(self) -> float | None:
        """The p-value of the answer; None where it has none."""
        if self.p_values is None or self.run.ended_by_hand:
            return None
        p = float(self.p_values.answer)
        return None if math.isnan(p) else p

    def _equal(self) -> list[str]:
        """What helps where two arms look equal, if that is so."""
        slack = SlackRows in self.call.instance.family.shapes
        if self.call.problem != BestArm() or self.intervals is None or not slack:
            return []
        assert self.leader is not None
        now, order = self.run.evidence, np.argsort(-self.means)
        rival = int(order[order != self.leader][0])
        pair = (self.run.names[self.leader], self.run.names[rival])
        if pair not in now.pieces or self.counts.min() < _FEW:
            return []
        if now.llr[now.pieces.index(pair)] >= EQUAL:
            return []
        words = (
            f"{pair[0]} and {pair[1]} look equal. BestArm(epsilon=..) ends a run even so: its "
            "answer may be worse than the best by epsilon."
        )
        if isinstance(self.call.threshold, Mixture):
            words += f" From epsilon = {_rounded_up(self._ending())} on these rewards would do."
        return [words]

    def _ending(self) -> float:
        """An epsilon at which a run with these rewards would end; the least for most families."""
        assert self.leader is not None
        others = np.flatnonzero(np.arange(self.counts.size) != self.leader)
        leader = np.full_like(others, self.leader)
        level = 1 - float(self.call.deltas[0])
        pieces, means = self.call.threshold.pieces, self.run._last_means("epsilon")
        if self.call.instance.family.name == "bounded":
            pieces *= _ALONE
        return max(float(means.differences(others, leader, level, pieces).high.max()), 0.0)


def _rounded_up(x: float) -> str:
    """A number of three digits, at least x."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 2) if x > 0 else 1.0
    return f"{math.ceil(x / unit) * unit:.3g}"

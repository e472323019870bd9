"""What is known of a live run: what its properties read."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import checks, scope
from jaxelim.errors import OverError, UnsupportedError
from jaxelim.live import report
from jaxelim.live.fold import Fold, State
from jaxelim.live.forecast import LiveForecast, simulated
from jaxelim.live.report import PValues
from jaxelim.simulation.refusals import proven
from jaxelim.simulation.results import confidence
from jaxelim.simulation.results.confidence import Estimated, Intervals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxelim.tables import Table


class Look:
    """What is known of a live run. Reading it changes nothing.

    Raises:
        UnsupportedError: by evidence, p-values, intervals, differences, forecasts and
            figures, before every arm has its first rewards.
    """

    _now: tuple[Fold, State]  # of one time: another thread may replace it

    def __repr__(self) -> str:
        state = f"stopped: {', '.join(map(str, self.answer_arms))}" if self.stopped else "open"
        state = "ended by hand" if self.ended_by_hand else state
        rule = type(self._fold.call.rule).__name__
        return f"<LiveRun of {rule}, {len(self.names)} arms, {self.told} rewards, {state}>"

    @property
    def _fold(self) -> Fold:
        return self._now[0]

    @property
    def _state(self) -> State:
        return self._now[1]

    @property
    def names(self) -> tuple:
        """The arms that are in, as the caller names them: [K]."""
        arms = self._fold.arms
        return tuple(map(arms.label, range(arms.K)))

    @property
    def first(self) -> int:
        """The number of initial pulls, which enter together."""
        return self._fold.first

    @property
    def proven(self) -> bool | str:
        """As `Result.proven`: True, or why the threshold does not prove the answer."""
        return proven(self._fold.call)

    @property
    def stopped(self) -> bool:
        """Whether the run has ended by its stopping rule."""
        return self._state.stopped

    @property
    def ended_by_hand(self) -> bool:
        """Whether `LiveRun.stop` has ended the run."""
        return bool(self._state.ended) and not self.stopped

    @property
    def samples(self) -> int:
        """The number of rewards until the run ended; so far, if it is open."""
        return self._state.ended or self._state.told

    @property
    def told(self) -> int:
        """The number of all rewards, those after the end of the run too."""
        return self._state.told

    @property
    def waiting(self) -> tuple:
        """Arms that were asked for and not told; without the initial pulls."""
        fold, state = self._now
        return tuple(map(fold.arms.label, state.waiting))

    @property
    def counts(self) -> np.ndarray:
        """The number of rewards of each arm: int64 [K]."""
        fold, state = self._now
        return fold.counts(state)

    @property
    def means(self) -> np.ndarray:
        """The estimates: float64 [K]; NaN for arms without a reward before the start.

        Averages of the rewards; for linear arms phi_k . theta_hat.
        """
        fold, state = self._now
        if state.lane is not None:
            return np.asarray(state.stats.means)[:, 0] * fold.arms.family.scale
        sums, counts = np.zeros(fold.arms.K), fold.counts(state)
        for k, reward, times, _ in state.before:
            sums[k] += reward * times
        return sums / np.where(counts, counts, np.nan)

    @property
    def answer(self) -> np.ndarray | None:
        """The answer, bool [K] as in `Trace`; None before the start, and after `LiveRun.stop`.

        While the run is open it is the empirical answer, without guarantee.
        """
        return None if self._state.lane is None or self.ended_by_hand else self._public()

    @property
    def answer_arms(self) -> tuple:
        """The arms in the answer, as the caller names them; numbers of items or answers."""
        answer = self.answer
        if answer is None:
            return ()
        of_arms = self._fold.call.problem.answer_axis is None and answer.size == len(self.names)
        name = self._fold.arms.label if of_arms else int
        return tuple(name(k) for k in np.flatnonzero(answer).tolist())

    @property
    def elimination_times(self) -> np.ndarray | None:
        """t when the stopping rule eliminated each arm, 0 for never: as in `Trace`.

        [K]; of top m [K, K], ordered pairs. None where nothing is recorded.
        """
        if self._state.lane is None or not self._fold.spec.stopping[0].eliminates:
            return None
        times = self._state.lane.observers[0].times()
        return None if times is None else np.asarray(times)[0, ..., 0]

    @property
    def active(self) -> np.ndarray:
        """What is not eliminated, bool: arms [K], or of `elimination_times`' shape.

        Where times are not recorded: the pieces of the empirical answer.
        """
        times = self.elimination_times
        if times is not None:
            return times == 0
        if self._state.lane is None or not self._fold.spec.stopping[0].eliminates:
            return np.ones(len(self.names), bool)
        return self.evidence["active"].to_numpy()

    @property
    def evidence(self) -> "Table":
        """The pieces of the empirical answer and the evidence against them: a row for each.

        Columns: `piece` in words, "a > b", or "a > 0.5" and "a < 0.5" for a level; `llr`;
        with a `Mixture` as threshold `log_e` at the present t, 0 where it is below 0;
        `needed`: the level that log e (else the LLR) must exceed to refute the piece;
        `active`: whether the stopping rule has not eliminated it; and, where the run keeps
        p-values, `p` and `p_together` from `PValues.pairs` and `PValues.together`.
        """
        self._started("evidence")
        return report.evidence(self._fold.look(self._state), self.p_values, self._fold.call)

    @property
    def p_values(self) -> PValues | None:
        """Anytime p-values of all pieces and of the answer: [K, K], []; see `PValues`.

        None where the run keeps none: with another threshold than `Mixture`, for more than
        64 arms, and for pieces that are neither pairs nor levels. After the end of the run
        they stay.
        """
        log_e = self._started("p_values").log_e
        if log_e is None:
            return None
        return PValues.of(np.asarray(log_e)[..., 0], self._public(), self._fold.call)

    def intervals(self, level: float | None = None) -> Intervals:
        """Confidence intervals of the means of all arms now, [K], as of `Result.intervals`.

        {u : sum_j w_j M_{k,j}(u) < K/(1 - level)} for arm k, with the priors of the
        threshold if it is a `Mixture`, else with its default ones. Linear arms share one
        mixture, with 1 in place of K. K is `most_arms`, if given. They hold together at all
        times, so after any stop.

        Args:
            level: the probability of that, in (0, 1); None: 1 - delta.

        Raises:
            UnsupportedError: the family has no mixture, or there is a ridge.
        """
        with scope.on_cpu():
            ends = self._intervals("intervals", self._level(level))
        return Intervals(ends.values[0], ends.low[0], ends.high[0], ends.level)

    def difference(
        self, a: Any, b: Any, level: float | None = None, together: bool = False
    ) -> Estimated:
        """mean(a) - mean(b) and the ends `low`, `high` of an interval that holds at all times.

        Args:
            a, b: two arms, by name or number.
            level: as in `intervals`.
            together: whether the intervals of all pairs hold together, so that a and b may
                be chosen by looking. False: they were named beforehand.

        Raises:
            ArgumentError: there are no such arms.
            UnsupportedError: as `intervals`.
        """
        pair = confidence.pair_of(self._fold.arms, a, b, together)
        with scope.on_cpu():
            ends = self._intervals("difference", self._level(level), *pair)
        return Estimated(*(float(x[0, 0]) for x in (ends.values, ends.low, ends.high)))

    def forecast(self, runs: int = 32, most: int = 10**6, seed: int = 0) -> LiveForecast:
        """How many more rewards the run needs, by simulating on from here; takes seconds.

        The simulated runs take the estimates for the truth. So the range is that of chance
        alone. Pending pulls are left out: simulated runs choose all further arms, each
        after the reward of the one before. A rule with rounds, such as Racing, counts them as
        pulled, so take its forecast where no pull is pending.

        Args:
            runs: number of simulated runs.
            most: rewards after which a simulated run is cut off.
            seed: of the simulated rewards.

        Raises:
            OverError: the run has ended.
            UnsupportedError: the rule or the family cannot be simulated.
        """
        self._refuse_over()
        self._started("forecast")
        return simulated(self._fold, self._state, self._public(), runs, most, seed)

    def figure(self) -> "Figure":
        """The evidence beside the level, and the arms' intervals and pulls."""
        from jaxelim.figures.arms import live_figure  # matplotlib is slow to import

        return live_figure(self)

    def _public(self) -> np.ndarray:
        """The answer of the run, or what would be it now: [W] bool."""
        if self.stopped:
            return np.asarray(self._state.lane.record.answer)[0, 0, :, 0]
        return self._fold.look(self._state)["public"]

    def _refuse_over(self) -> None:
        """Refuse to go on where the run is over."""
        if self._state.ended:
            self._fold.refuse_failed(self._state.lane, self.told)
            raise OverError(self.answer_arms, self.samples)

    def _started(self, name: str) -> Any:
        """The lanes, which there are once every arm has its first rewards."""
        if due := self._fold.due(self._state):
            lacking = map(str, dict.fromkeys(map(self._fold.arms.label, due)))
            allowed = f"after the first rewards of every arm; still to come: {', '.join(lacking)}"
            raise UnsupportedError(name, self, allowed)
        return self._state.lane

    @property
    def known_intervals(self) -> Intervals | None:
        """`intervals()`; None where there are none."""
        began = self._state.lane is not None and not self._no_intervals
        return self.intervals() if began else None

    @property
    def _no_intervals(self) -> str:
        """Why the run has no intervals; empty where it has."""
        return confidence.missing(self._fold.arms, self._fold.call.ridge)

    def _intervals(self, name: str, level: float, *pair: Any) -> Intervals:
        """Intervals of the present means, as of `confidence.of_runs`."""
        self._started(name)
        stats, fold = self._state.stats, self._fold
        moments = None if stats.moments is None else np.asarray(stats.moments)[None, :, 0]
        if self._no_intervals:
            raise UnsupportedError(name, fold.arms.family, self._no_intervals)
        counts, means = (np.asarray(x)[None, :, 0] for x in (stats.counts, stats.means))
        own = fold.arms, fold.spec.family, fold.call.threshold, counts, means, moments
        return confidence.of_runs(*own, level, *pair)

    def _level(self, level: float | None) -> float:
        if level is None:
            return 1 - float(self._fold.call.delta[0])
        return checks.real("level", level, low=0, high=1, open=True)

"""What is known of a live run: what its properties read."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import checks
from jaxelim.errors import OverError, UnsupportedError
from jaxelim.live import forecast
from jaxelim.live.evidence import LiveEvidence, PValues
from jaxelim.live.forecast import LiveForecast
from jaxelim.live.moment import LiveJob, Moment
from jaxelim.simulation.results import confidence
from jaxelim.simulation.results.confidence import Intervals, MeansOfRuns
from jaxelim.simulation.results.proven import proven
from jaxelim.simulation.results.two_samples import Estimated

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class LiveState:
    """What is known of a live run. Reading it changes nothing."""

    _job: LiveJob
    _moment: Moment

    @property
    def names(self) -> tuple:
        """The arms as the caller names them: [K]."""
        return tuple(map(self._job.arms.label, range(self._job.arms.K)))

    @property
    def first(self) -> int:
        """The number of initial pulls, which enter together."""
        return self._job.first

    @property
    def settings(self) -> dict[str, Any]:
        """The problem, the rule, delta and the threshold."""
        call, own = self._job.call, ("problem", "rule", "threshold")
        return {"delta": float(call.delta[0]), **{name: getattr(call, name) for name in own}}

    @property
    def proven(self) -> bool | str:
        """As `Result.proven`: True, or why the threshold does not prove the answer."""
        return proven(self._job.call)

    @property
    def stopped(self) -> bool:
        """Whether the run has ended by its stopping rule."""
        return self._moment.stopped

    @property
    def ended_by_hand(self) -> bool:
        """Whether `LiveRun.stop` has ended the run."""
        return bool(self._moment.ended) and not self._moment.stopped

    @property
    def samples(self) -> int:
        """The number of rewards until the run ended; so far, if it is open."""
        return self._moment.ended or self._moment.told

    @property
    def told(self) -> int:
        """The number of all rewards, those after the end of the run too."""
        return self._moment.told

    @property
    def waiting(self) -> tuple:
        """Arms that were asked for and not told; without the initial pulls."""
        return tuple(map(self._job.arms.label, self._moment.waiting))

    @property
    def counts(self) -> np.ndarray:
        """The number of rewards of each arm: int64 [K]."""
        if self._moment.lane is None:
            arms = np.array([k for k, _ in self._moment.before], int)
            return np.bincount(arms, minlength=len(self.names))
        return np.asarray(self._moment.stats.counts)[:, 0].astype(np.int64)

    @property
    def means(self) -> np.ndarray:
        """The estimates: float64 [K]; NaN for arms without a reward before the start.

        Averages of the rewards; for linear arms phi_k . theta_hat.
        """
        if self._moment.lane is not None:
            return np.asarray(self._moment.stats.means)[:, 0] * self._job.arms.family.scale
        sums = np.zeros(len(self.names))
        for k, reward in self._moment.before:
            sums[k] += reward
        return sums / np.where(self.counts, self.counts, np.nan)

    @property
    def answer(self) -> np.ndarray | None:
        """The answer, bool [K] as in `Trace`; None before the start, and after `LiveRun.stop`.

        While the run is open it is the empirical answer, without guarantee.
        """
        begun = self._moment.lane is not None and not self.ended_by_hand
        return self._public() if begun else None

    @property
    def answer_arms(self) -> tuple:
        """The arms in the answer, as the caller names them; numbers of items or answers."""
        answer = self.answer
        if answer is None:
            return ()
        of_arms = self._job.call.problem.answer_axis is None and answer.size == len(self.names)
        name = self._job.arms.label if of_arms else int
        return tuple(name(k) for k in np.flatnonzero(answer).tolist())

    @property
    def elimination_times(self) -> np.ndarray | None:
        """t when the stopping rule eliminated each arm, 0 for never: as in `Trace`.

        [K]; of top m [K, K], ordered pairs. None where nothing is recorded.
        """
        lane = self._moment.lane
        eliminates = lane is not None and self._job.spec.stopping[0].eliminates
        times = lane.observers[0].times() if lane is not None and eliminates else None
        return None if times is None else np.asarray(times)[0, ..., 0]

    @property
    def active(self) -> np.ndarray:
        """What is not eliminated, bool: arms [K], or of `elimination_times`' shape.

        Where times are not recorded: the pieces of the empirical answer.
        """
        times = self.elimination_times
        if times is not None:
            return times == 0
        if self._moment.lane is None or not self._job.spec.stopping[0].eliminates:
            return np.ones(len(self.names), bool)
        return self.evidence.active

    @property
    def evidence(self) -> LiveEvidence:
        """The evidence against each piece of the empirical answer, beside the level.

        Raises:
            UnsupportedError: not every arm has its first rewards.
        """
        self._started("evidence")
        return LiveEvidence.of(self._job.look(self._moment), self.p_values, self._job.call)

    @property
    def p_values(self) -> PValues | None:
        """Anytime p-values of all pieces and of the answer: [K, K], []; see `PValues`.

        None where the run keeps none: with another threshold than `Mixture`, for more than
        64 arms, and for pieces that are neither pairs nor levels. After the end of the run
        they stay.

        Raises:
            UnsupportedError: not every arm has its first rewards.
        """
        log_e = self._started("p_values").log_e
        if log_e is None:
            return None
        return PValues.of(np.asarray(log_e)[..., 0], self._public(), self._job.call)

    def intervals(self, level: float | None = None) -> Intervals:
        """Confidence intervals of the means of all arms, which hold together at all times.

        {u : sum_j w_j M_{k,j}(u) < K/(1 - level)} for arm k, with the priors of the
        threshold if it is a `Mixture`, else with its default ones. Linear arms share one
        mixture, with 1 in place of K. They may be looked at as often as one likes, and
        after any stop.

        Args:
            level: the probability that all of them hold, always; None: 1 - delta.

        Raises:
            ArgumentError: level is not in (0, 1).
            UnsupportedError: not every arm has its first rewards; or the family has no
                mixture, or there is a ridge.
        """
        ends = self._last_means("intervals").intervals(self._level(level))
        return Intervals(ends.values[0], ends.low[0], ends.high[0], ends.level)

    def difference(
        self, a: Any, b: Any, level: float | None = None, together: bool = False
    ) -> Estimated:
        """mean(a) - mean(b), with a confidence interval that holds at all times.

        Args:
            a, b: two arms, by name or number.
            level: the probability that the interval always holds; None: 1 - delta.
            together: whether the intervals of all pairs hold together, so that a and b may
                be chosen by looking. False: they were named beforehand.

        Returns:
            The value, and the ends `low` and `high`.

        Raises:
            ArgumentError: no such arms, or level is not in (0, 1).
            UnsupportedError: as `intervals`.
        """
        pair, k = confidence.pair_of(self._job.arms, a, b), len(self.names)
        pairs = k * (k - 1) // 2 if together else 1
        ends = self._last_means("difference").differences(*pair, self._level(level), pairs)
        return Estimated(*(float(x[0, 0]) for x in (ends.values, ends.low, ends.high)))

    def forecast(
        self, runs: int = forecast.RUNS, most: int = forecast.MOST, seed: int = 0
    ) -> LiveForecast:
        """How many more rewards the run needs, by simulating on from here; takes seconds.

        The simulated runs take the estimates for the truth. So the range is that of chance
        alone, and the forecast is only as good as the estimates. Pending pulls are left out:
        simulated runs choose all further arms, each after the reward of the one before.

        Args:
            runs: number of simulated runs.
            most: rewards after which a simulated run is cut off.
            seed: of the simulated rewards.

        Raises:
            ArgumentError: an argument is out of range.
            OverError: the run has ended.
            UnsupportedError: not every arm has its first rewards; or the rule or the family
                cannot be simulated.
        """
        runs = checks.integer("runs", runs, low=1, high=forecast.MOST_RUNS)
        most = checks.integer("most", most, low=1, high=forecast.LONGEST)
        seed = checks.seed(seed)
        self._refuse_over()
        self._started("forecast")
        return forecast.simulated(self._job, self._moment, self._public(), runs, most, seed)

    def figure(self) -> "Figure":
        """The evidence beside the level, and the arms' intervals and pulls.

        Raises:
            UnsupportedError: not every arm has its first rewards.
        """
        from jaxelim.figures.live import live_figure  # matplotlib is slow to import

        now, known = self.evidence, None if self._no_intervals else self.intervals()
        ends = None if known is None else (known.low, known.high, known.level)
        values, words = (now.llr, "LLR") if now.log_e is None else (now.log_e, "log e")
        named = ", ".join(map(str, self.answer_arms)) or "no arm"
        title = f"stopped: {named}" if self.stopped else f"open: {named} in the lead"
        title = "ended by hand" if self.ended_by_hand else title
        arms = list(map(str, self.names))
        return live_figure(now.labels, values, now.beta, now.active, arms, self.means, self.counts,
                           words, ends, title)  # fmt: skip

    def _public(self) -> np.ndarray:
        """The answer of the run, or what would be it now: [W] bool."""
        if self.stopped:
            assert self._moment.lane is not None
            return np.asarray(self._moment.lane.record.answers)[0, 0, :, 0]
        return self._job.look(self._moment)["public"]

    def _refuse_over(self) -> None:
        """Refuse to go on where the run is over."""
        if self._moment.ended:
            self._job.refuse_failed(self._moment.lane, self.told)
            raise OverError(self.answer_arms, self.samples)

    def _started(self, name: str) -> Any:
        """The lanes, which there are once every arm has its first rewards."""
        if self._moment.lane is None:
            allowed = f"after the first {self.first} rewards, {self.told} so far"
            raise UnsupportedError(name, self, allowed)
        return self._moment.lane

    @property
    def _no_intervals(self) -> str:
        """Why the run has no intervals; empty where it has."""
        return confidence.missing(self._job.arms, self._job.call.ridge)

    def _last_means(self, name: str) -> MeansOfRuns:
        """The present means, for intervals."""
        self._started(name)
        stats, job = self._moment.stats, self._job
        if self._no_intervals:
            raise UnsupportedError(name, job.arms.family, self._no_intervals)
        moments = None if stats.moments is None else np.asarray(stats.moments)[None, :, 0]
        counts, means = (np.asarray(x)[None, :, 0] for x in (stats.counts, stats.means))
        return MeansOfRuns(arms=job.arms, family=job.spec.family, counts=counts, means=means,
                           moments=moments, grid=confidence.priors(job.call.threshold))  # fmt: skip

    def _level(self, level: float | None) -> float:
        if level is None:
            return 1 - float(self._job.call.delta[0])
        return confidence.level_of(level)

"""The result of a simulation."""

import dataclasses
import os
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import checks
from jaxelim.bounds import complexity, efficiency
from jaxelim.cache import jitted
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError
from jaxelim.lanes import LaneOps
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.results import confidence, descriptions, summaries
from jaxelim.simulation.results.confidence import Intervals
from jaxelim.simulation.results.descriptions import ARRAYS
from jaxelim.text import Text

if TYPE_CHECKING:
    import xarray as xr

    from jaxelim.tables import Table


def correct_answer(instance: Any, problem: Any) -> np.ndarray:
    """The public form of each instance's correct answer: bool [K], with a batch [instance, K]."""
    answers = [
        np.asarray(_answer(problem.static_part(), alone.theta, alone.means, problem.constants()))
        for alone in instance.unbatched
    ]
    return np.stack(answers) if instance.batched else answers[0]


def correct(call: Any, answers: np.ndarray) -> np.ndarray:
    """Which public answers are right: bool of their leading axes."""
    truth = correct_answer(call.instance, call.problem)
    if not call.instance.batched:
        return call.problem.correct(answers, truth, call.instance.means)
    return np.stack(list(map(call.problem.correct, answers, truth, call.instance.means)))


@jitted
def _answer(problem: Any, theta: Any, means: Any, constants: Any) -> Any:
    seen = Estimate(LaneOps(), means, theta, constants)
    return problem.public(seen, problem.answer(seen))


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """The result of `simulate`.

    Arrays are [stopping, delta, run], with a batch [instance, stopping, delta, run]. K
    is the number of arms. In `answer` of `HalfSpaces` it is the number of answers, with
    `BestArm(items=..)` in `answer` and `elimination_times` the number P of items.

    Attributes:
        experiment: what was simulated: every argument of the call, checked.
        samples: int32, samples drawn until the run was over (tau where it stopped), those
            whose rewards were pending too.
        stopped: bool, whether its stopping rule ended the run.
        truncated: bool, whether max_samples ended the run, or the end of its noise or of
            recorded rewards. Then `answer` is the empirical one, without guarantee.
        answer: bool [..., K]: the best arm or item, the top m, or mean >= level.
        correct: bool, whether the answer is that of the true theta. For
            `BestArm(epsilon=)`: whether the arm is within epsilon of the best.
        pulls: int32 [..., K], pulls of each arm.
        elimination_times: int32 [..., K], samples when this stopping rule eliminated each arm, 0
            for never. For top m [..., K, K], ordered pairs, with record=("pair_times",). For
            `HalfSpaces` [..., A, G]. None where nothing was recorded.
        tests_stopping: int64, half-spaces tested for stopping in the whole run (the
            paper's cost measure).
        tests_sampling: int64, half-spaces tested for sampling.
        costs: float64, what the pulls cost, in the units of the instance's costs; None
            where it has none.
        solves: int64, optimisations solved for sampling; None for rules that solve none.
        means: float64 [.., K], the estimates at the end of each run, in the units of the rewards:
            averages, for linear arms phi_k . theta_hat. With record=("means",); else None.
        variances: float64 [.., K], v = sum (x - mean)^2/N likewise, for Gaussian rewards
            of unknown variance; else None.
        entered: int32 [.., K], the rewards behind `means`, which are fewer than the pulls where
            some are pending. With a batch or a delay; else None.
        timings: `seconds`, without compilation; `compile_seconds`, and `compile_processor_seconds`,
            the processor time of the whole process meanwhile; `samples_drawn`, and
            `samples_computed`, which counts idle lanes too.
        layout: how the runs were laid out, and by which versions they were computed.
        origin: of what it was made: the version and the `REVISION` of jaxelim, hashes of the
            instance's numbers and of given noise, and `proven`.
    """

    experiment: Experiment
    samples: np.ndarray
    stopped: np.ndarray
    answer: np.ndarray
    correct: np.ndarray
    pulls: np.ndarray
    elimination_times: np.ndarray | None
    tests_stopping: np.ndarray
    tests_sampling: np.ndarray
    solves: np.ndarray | None
    timings: dict
    layout: dict
    origin: dict
    means: np.ndarray | None = None
    variances: np.ndarray | None = None
    entered: np.ndarray | None = None

    instance = property(attrgetter("experiment.instance"), doc="The instance, or the batch.")
    problem = property(attrgetter("experiment.problem"), doc="The problem.")
    rule = property(attrgetter("experiment.rule"), doc="The sampling rule.")
    stopping = property(attrgetter("experiment.stopping"), doc="The stopping rules, a tuple.")
    elimination = property(attrgetter("experiment.elimination"), doc="That at sampling, or None.")
    threshold = property(attrgetter("experiment.threshold"), doc="The threshold.")
    deltas = property(attrgetter("experiment.delta"), doc="The error probabilities, float64 [D].")
    runs = property(attrgetter("experiment.runs"), doc="The run indices, int64 [R].")

    @property
    def settings(self) -> dict[str, Any]:
        """All that determines the numbers, as text for people; `experiment` has the values."""
        call = self.experiment
        return {
            "instance": call.instance.name or repr(call.instance),
            **{name: repr(getattr(call, name)) for name in ("problem", "rule")},
            "stopping": ", ".join(map(repr, call.stopping)),
            **{name: repr(getattr(call, name)) for name in ("elimination", "threshold")},
            **{name: getattr(call, name) for name in ("seed", "max_samples", "initial_pulls")},
            **({"batch": call.batch, "delay": call.delay} if call.waits else {}),
            **({} if call.ridge is None else {"ridge": call.ridge}),
            "noise": "given" if "noise_sha256" in self.origin else "seeded",
            **call.instance.family_settings,
            **self.origin,
            "proven": str(self.proven),
        }

    @property
    def costs(self) -> np.ndarray | None:
        """What the pulls of each run cost: float64, shape of `samples`; None without costs."""
        prices = self.instance.costs
        return None if prices is None else np.sum(self.pulls * prices, -1)

    def intervals(self, level: float = 0.95) -> Intervals:
        """Confidence intervals of the means of all arms at the end of each run.

        They are confidence sequences: they hold whatever the sampling rule was, and whatever
        ended the run. All K intervals of a run hold together, with probability `level`, if the
        rewards are draws of the family.

        Args:
            level: in (0, 1).

        Returns:
            Estimates and ends, [.., K] each.

        Raises:
            ArgumentError: level is not in (0, 1), or a loaded threshold is text.
            UnsupportedError: the means were not recorded; the family has no mixture; there is
                a ridge; or no proof covers recorded rewards.
        """
        return confidence.of_result(self, "intervals", level)

    def difference(self, a: int, b: int, level: float = 0.95, together: bool = False) -> Intervals:
        """mean(a) - mean(b) at the end of each run, with a confidence interval.

        Args:
            a, b: two arms.
            level: of one interval, valid at all times, in (0, 1).
            together: whether the intervals of all pairs hold together, so that a and b may
                be chosen by looking at the run. False: they were named beforehand.

        Returns:
            Differences and ends, shape of `samples` each.

        Raises:
            ArgumentError, UnsupportedError: there are no such arms; and as `intervals`.
        """
        pair = confidence.pair_of(self.instance, a, b, together)
        return confidence.of_result(self, "difference", level, *pair)

    @property
    def batched(self) -> bool:
        """Whether arrays have a leading axis of instances."""
        return self.samples.ndim == 4

    @property
    def truncated(self) -> np.ndarray:
        """bool, shape of samples: whether the run was truncated."""
        return ~self.stopped

    @property
    def proven(self) -> bool | str:
        """True where a run ends wrongly with probability at most delta; else why not.

        The proof is the threshold's, for this family, problem, rule, ridge and all stops.
        It takes the rewards to be draws of the family. Truncated runs have no guarantee.
        """
        return self.origin["proven"]

    def summary(self) -> "Table":
        """Mean and standard deviation of tau, errors and cost: a data frame with title and notes.

        One row per instance, stopping rule and delta. Means leave out truncated runs,
        which have their own column. Errors are of all runs; a truncated run is none.
        """
        from jaxelim.tables import Table  # pandas is slow to import

        named = self.instance.name or repr(self.instance)
        title = f"{self.rule!r} on {named}, {self.problem}, at sampling: {self.elimination!r}"
        return Table(summaries.rows_of(self), title, summaries.notes_of(self))

    def efficiency(self) -> tuple[np.ndarray, np.ndarray]:
        """Compare the runs with the lower bound, and their pulls with the optimal allocation.

        Returns:
            samples over log(1/(2.4 delta))/H*, shape of samples (1 is the bound); and
            the total variation distance between pulls/samples and w*, of the same
            shape. NaN for truncated runs. With costs it is the cost over that bound, and
            the distance is from the optimal shares of the pulls.

        Raises:
            ArgumentError: the problem is a loaded file's text; and as `complexity`.
        """
        if isinstance(self.problem, Text):
            allowed = "problem itself, by load_result(path, problem=...)"
            raise ArgumentError("problem", self.problem, allowed)
        solved, lead = complexity(self.instance, self.problem), (*self.samples.shape[:-3], 1, 1, 1)
        value, allocation = np.reshape(solved.value, lead), np.reshape(solved.pulls, (*lead, -1))
        samples, pulls = np.swapaxes(self.samples, -2, -1), np.swapaxes(self.pulls, -3, -2)
        found = efficiency(samples, pulls, self.deltas, value, allocation)  # delta is the last axis
        ratio, distance = (np.swapaxes(x, -2, -1) for x in found)
        cut = np.where(self.stopped, 1.0, np.nan)
        if self.costs is not None:
            ratio = ratio * (self.costs / self.samples)
        return ratio * cut, distance * cut

    def compare(self, other: "Result", **settings: Any) -> "Table":
        """Compare stopping times and errors with those of another result: `je.compare`."""
        return summaries.compare([self, other], **settings)

    def select(self, stopping: Any = None, delta: Any = None) -> "Result":
        """The part of some stopping rules and deltas, whose runs share the time they took.

        Args:
            stopping: the name of a stopping rule, or several; None: all.
            delta: one or several; None: all.

        Raises:
            ArgumentError: there is no such stopping rule or delta.
        """
        known = {rule.name: s for s, rule in enumerate(self.stopping)}
        names = known if stopping is None else [stopping] if isinstance(stopping, str) else stopping
        rules = [known[checks.choice("stopping", name, known)] for name in names]
        deltas, have = self.deltas if delta is None else checks.deltas(delta), self.deltas.tolist()
        for value in deltas:
            if value not in have:
                raise ArgumentError("delta", value, f"one of {have}")
        levels = list(map(have.index, deltas))
        at: tuple = (*[slice(None)] * self.batched, *np.ix_(rules, levels))
        return self._part(at, stopping=tuple(self.stopping[s] for s in rules), delta=deltas)

    def of_instance(self, index: int) -> "Result":
        """The result of one instance of a batch; its timings are an equal share of the batch's."""
        one, size = self.instance[index], self.instance.size
        origin = self.origin | {"instance_sha256": descriptions.hash_of(one)}
        timings = {name: value / size for name, value in self.timings.items()}
        part = self._part(index, instance=one)
        return dataclasses.replace(part, origin=origin, timings=timings)

    def _part(self, at: Any, **changes: Any) -> "Result":
        """The part of all arrays at an index, with the changes of the experiment."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        experiment = Experiment.unchecked(**self.experiment.fields | changes)
        parts = {name: None if x is None else x[at] for name, x in arrays.items()}
        return dataclasses.replace(self, experiment=experiment, **parts)

    def to_xarray(self) -> "xr.Dataset":
        """All arrays with labelled dimensions; settings, layout and timings as attributes.

        `save` writes them with all that `load_result` needs.
        """
        import xarray as xr  # slow to import, so only here

        dims = (*("instance",) * self.batched, "stopping", "delta", "run")
        of_answer = self.problem.answer_axis or (
            "arm" if self.answer.shape[-1] == self.pulls.shape[-1] else "answer_index"
        )
        own: dict[tuple, tuple] = {("answer",): (of_answer,), ("times",): self.problem.times_axes}
        data: dict[str, Any] = {"truncated": (dims, self.truncated)}
        if self.costs is not None:
            data["costs"] = (dims, self.costs)
        for name, (axes, unit) in ARRAYS.items():
            if (x := getattr(self, name)) is not None:
                data[name] = (*dims, *own.get(axes, axes)), x, {"units": unit} if unit else {}
        coords = {"stopping": [rule.name for rule in self.stopping], "delta": self.deltas,
                  "run": self.runs}  # fmt: skip
        told = self.settings
        for word, numbers in (("plan", self.layout), ("work", self.timings)):
            for name, x in numbers.items():
                told[f"{word}_{name}"] = "" if x is None else int(x) if isinstance(x, bool) else x
        return xr.Dataset(data, coords, told)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result and its experiment to one NetCDF file; `load_result` reads it back.

        It is written under another name and renamed, so it is complete or absent. `xarray`
        opens it too: see docs/reference/file-formats.md.

        Args:
            path: the file; an older one is replaced.

        Raises:
            ArgumentError: the path cannot be written to. Or a part, such as a threshold,
                is a lambda or another object that a file cannot name; a frozen dataclass
                with `__call__` is one that it can.
            StoreError: the file cannot be written, such as on a full disk.
        """
        descriptions.write(path, {"/": descriptions.dataset_of(self)})

    def equals(self, other: "Result") -> bool:
        """Whether both have the same experiment and equal arrays, NaN equal to NaN.

        Names of instances, `timings`, `layout` and the version do not count.

        Raises:
            ArgumentError: other is no `Result`.
        """
        if not isinstance(other, Result):
            raise ArgumentError("other", other, "a Result")
        return descriptions.same(self, other)

    def __repr__(self) -> str:
        of, sizes = self.instance.name or repr(self.instance), map(str, self.samples.shape)
        return f"<Result {self.rule!r} on {of}: {'x'.join(sizes)} runs>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

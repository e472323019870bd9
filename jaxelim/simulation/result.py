"""Results of a simulation, and the trace of one run."""

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim.cache import jitted
from jaxelim.contracts.views import Estimate
from jaxelim.errors import ArgumentError
from jaxelim.lanes import LaneOps
from jaxelim.lower_bound import complexity, efficiency
from jaxelim.simulation import comparison

if TYPE_CHECKING:
    import xarray as xr

    from jaxelim.simulation.comparison import Comparison


BIASED = "the mean of the others is biased low"
"""The note on means where some runs were truncated."""


def correct_answer(instance: Any, problem: Any) -> np.ndarray:
    """The public form of each instance's correct answer: bool [K], with a batch [instance, K]."""
    given = [(one.theta, one.means, problem.constants()) for one in instance.unbatched]
    answers = [np.asarray(_answer(problem.static_part(), *one)) for one in given]
    return np.stack(answers) if instance.batched else answers[0]


def _correct(job: Any, answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Which public answers are right: bool of their leading axes."""
    if not job.instance.batched:
        return job.problem.correct(answers, truth, job.instance.means)
    each = zip(answers, truth, job.instance.means, strict=True)
    return np.stack([job.problem.correct(*one) for one in each])


@jitted
def _answer(problem: Any, theta: Any, means: Any, constants: Any) -> Any:
    seen = Estimate(LaneOps(), means, theta, constants)
    return problem.public(seen, problem.answer(seen))


@dataclasses.dataclass(frozen=True)
class Summary:
    """A table with one row per instance, stopping rule and delta.

    It prints as text; `rows` holds the numbers.
    """

    title: str
    rows: tuple[dict, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned(self.rows), *self.notes])

    __repr__ = __str__


def aligned(rows: Any) -> list[str]:
    """Format rows with equal keys as aligned lines of text, the first of them the keys."""
    rows = [{k: _shown(v) for k, v in row.items()} for row in rows]
    head = list(rows[0])
    width = {k: max(len(k), *(len(row[k]) for row in rows)) for k in head}
    lines = ["  ".join(k.rjust(width[k]) for k in head)]
    return lines + ["  ".join(row[k].rjust(width[k]) for k in head) for row in rows]


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """The result of `simulate`.

    Arrays are [stopping, delta, run], with a batch [instance, stopping, delta, run]. K
    is the number of arms. In `answer` of `HalfSpaces` it is the number of answers, with
    `BestArm(items=..)` in `answer` and `elimination_times` the number P of items.

    Attributes:
        samples: int32, samples drawn until the run was over (tau where it stopped).
        stopped: bool, whether its stopping rule ended the run.
        truncated: bool, whether max_samples or the end of its noise ended the run. Then
            `answer` is the empirical one, without guarantee.
        answer: bool [..., K]: the best arm or item, the top m, or mean >= level.
        correct: bool, whether the answer is that of the true theta. For
            `BestArm(epsilon=)`: whether the arm is within epsilon of the best.
        pulls: int32 [..., K], pulls of each arm.
        elimination_times: int32 [..., K], samples when this stopping rule eliminated
            each arm, 0 for never. For top m [..., K, K], ordered pairs, with
            record=("pair_times",). For `HalfSpaces` [..., A, G]. None where nothing
            was recorded.
        tests_stopping: int64, half-spaces tested for stopping in the whole run (the
            paper's cost measure).
        tests_sampling: int64, half-spaces tested for sampling.
        solves: int64, optimisations solved for sampling; None for rules that solve none.
        timings: `seconds`, without compilation; `compile_seconds`, and
            `compile_processor_seconds`, the processor time of the whole process
            meanwhile; `samples_drawn`, and `samples_computed`, which counts idle lanes
            too; `choose_rounds`, calls of `choose`.
        layout: how the runs were laid out.
        settings: all that determines the numbers, as text.
    """

    instance: Any
    problem: Any
    rule: Any
    deltas: np.ndarray
    stopping: tuple
    runs: np.ndarray
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
    settings: dict

    @property
    def work(self) -> dict:
        """Deprecated name of `timings`."""
        return _renamed("work", "timings", self.timings)

    @property
    def plan(self) -> dict:
        """Deprecated name of `layout`."""
        return _renamed("plan", "layout", self.layout)

    @property
    def truncated(self) -> np.ndarray:
        """bool, shape of samples: whether the run was truncated."""
        return ~self.stopped

    @staticmethod
    def assembled(job: Any, spec: Any, arrays: Any, work: dict) -> "Result":
        """Build it from a job, its spec and the ordered `Outcome` of its runs."""
        found = [x for x in arrays.times if x is not None]
        times = None
        if found:
            each = [np.zeros_like(found[0]) if x is None else x for x in arrays.times]
            times = np.concatenate(each, 1 if job.instance.batched else 0)
        truth = correct_answer(job.instance, job.problem)
        plan = {
            **spec.family.plan(),
            "lanes": spec.lanes,
            "chunk": spec.chunk,
            "devices": spec.devices,
            "deltas_per_trajectory": spec.deltas,
            "entrance": "vmap" if spec.vmapped or not spec.rule.traits.lanes_last else "lanes",
        }
        settings = {
            "instance": job.instance.name or repr(job.instance),
            "problem": repr(job.problem),
            "rule": repr(job.rule),
            "stopping": ", ".join(map(repr, job.stopping)),
            "elimination": repr(job.elimination),
            "threshold": repr(job.threshold),
            "seed": job.seed,
            "max_samples": job.max_samples,
            "initial_pulls": job.initial_pulls,
            **({} if job.ridge is None else {"ridge": job.ridge}),
            "noise": "given" if job.noise is not None else "seeded",
            **job.instance.family_settings,
            "precision": spec.precision,
            **job.rule.report(job.instance, job.problem),
        }
        return Result(
            instance=job.instance,
            problem=job.problem,
            rule=job.rule,
            deltas=job.deltas,
            stopping=job.stopping,
            runs=job.runs,
            samples=arrays.samples,
            stopped=arrays.stopped,
            answer=arrays.answer,
            correct=_correct(job, arrays.answer, truth),
            pulls=arrays.pulls,
            elimination_times=times,
            tests_stopping=arrays.tests_stopping,
            tests_sampling=arrays.tests_sampling,
            solves=arrays.solves,
            timings=work,
            layout=plan,
            settings=settings,
        )

    def summary(self) -> Summary:
        """Mean and standard deviation of tau, errors and cost.

        One row per instance, stopping rule and delta. Means leave out truncated runs,
        which have their own column.
        """
        rows = []
        batched = self.instance.batched
        shaped = lambda x: x if batched else x[None]  # noqa: E731
        for i in range(self.instance.size):
            for s, stopping in enumerate(self.stopping):
                for d, delta in enumerate(self.deltas):
                    at = (i, s, d)
                    stopped = shaped(self.stopped)[at]
                    tau = shaped(self.samples)[at][stopped].astype(float)
                    n = tau.size
                    row = {"instance": i} if batched else {}
                    row |= {
                        "stopping": stopping.name,
                        "delta": float(delta),
                        "runs": stopped.size,
                        "cut off": stopped.size - n,
                        "mean tau": float(tau.mean()) if n else math.nan,
                        "sd": float(tau.std(ddof=1)) if n > 1 else math.nan,
                        "s.e.": float(tau.std(ddof=1) / n**0.5) if n > 1 else math.nan,
                        "errors": float((~shaped(self.correct)[at][stopped]).mean())
                        if n
                        else math.nan,
                        "tests/sample": float(
                            (shaped(self.tests_stopping)[at][stopped] / tau).mean()
                        )
                        if n
                        else math.nan,
                    }
                    rows.append(row)
        at_sampling = self.settings["elimination"]
        title = (
            f"{self.settings['rule']} on {self.settings['instance']}, {self.problem}, "
            f"at sampling: {at_sampling}"
        )
        notes = []
        cut = int(self.truncated.sum())
        if cut:
            cap = self.settings["max_samples"]
            notes.append(
                f"{cut} of {self.truncated.size} runs were cut off at {cap} samples or at the end "
                "of their noise: "
                f"they are in no mean{', and ' + BIASED if cut < self.truncated.size else ''}."
            )
        drawn = max(self.timings["samples_drawn"], 1)
        seconds, compiling = self.timings["seconds"], self.timings["compile_seconds"]
        notes.append(
            f"{drawn} samples in {seconds:.2f} s, {1e6 * seconds / drawn:.3f} us per sample, "
            f"after {compiling:.1f} s of compiling."
        )
        return Summary(title, tuple(rows), tuple(notes))

    def efficiency(self) -> tuple[np.ndarray, np.ndarray]:
        """Compare the runs with the lower bound, and their pulls with the optimal allocation.

        Returns:
            samples over log(1/(2.4 delta))/H*, shape of samples (1 is the bound); and
            the total variation distance between pulls/samples and w*, of the same
            shape. NaN for truncated runs.
        """
        solved = complexity(self.instance, self.problem)
        lead = self.samples.shape[:1] if self.instance.batched else ()
        value = np.reshape(solved.value, (*lead, 1, 1))
        allocation = np.reshape(solved.allocation, (*lead, 1, 1, -1))
        of_delta = [
            efficiency(self.samples[..., d, :], self.pulls[..., d, :, :], delta, value, allocation)
            for d, delta in enumerate(self.deltas)
        ]
        ratio, distance = (np.stack(x, -2) for x in zip(*of_delta, strict=True))
        cut = np.where(self.stopped, 1.0, np.nan)
        return ratio * cut, distance * cut

    def compare(self, other: "Result", **settings: Any) -> "Comparison":
        """Compare stopping times and errors with those of another result: `je.compare`."""
        return comparison.compare([self, other], **settings)

    def to_xarray(self) -> "xr.Dataset":
        """All arrays with labelled dimensions; settings, layout and timings as attributes.

        Save with `.to_netcdf(path)`.
        """
        import xarray as xr  # slow to import, so only here

        lead = ("instance",) if self.instance.batched else ()
        dims = (*lead, "stopping", "delta", "run")
        of_answer = self.problem.answer_axis or (
            "arm" if self.answer.shape[-1] == self.instance.K else "answer_index"
        )
        data: dict[str, Any] = {
            name: (dims, getattr(self, name))
            for name in (
                "samples",
                "stopped",
                "truncated",
                "correct",
                "tests_stopping",
                "tests_sampling",
            )
        }
        if self.solves is not None:
            data["solves"] = (dims, self.solves)
        data["answer"] = ((*dims, of_answer), self.answer)
        data["pulls"] = ((*dims, "arm"), self.pulls)
        times = self.elimination_times
        if times is not None:
            data["elimination_times"] = ((*dims, *self.problem.times_axes), times)
        coords = {
            "stopping": [rule.name for rule in self.stopping],
            "delta": self.deltas,
            "run": self.runs,
        }
        units = {
            "samples": "samples",
            "pulls": "samples",
            "elimination_times": "samples",
            "tests_stopping": "half-space tests",
            "tests_sampling": "half-space tests",
            "solves": "solves",
        }
        ds = xr.Dataset(
            data,
            coords,
            {
                **self.settings,
                **{f"plan_{k}": _attribute(v) for k, v in self.layout.items()},
                **{f"work_{k}": _attribute(v) for k, v in self.timings.items()},
            },
        )
        for name, unit in units.items():
            if name in ds:
                ds[name].attrs["units"] = unit
        return ds

    def __repr__(self) -> str:
        return (
            f"<Result {self.settings['rule']} on {self.settings['instance']}: "
            f"{'x'.join(map(str, self.samples.shape))} runs>"
        )


def _renamed(old: str, new: str, value: dict) -> dict:
    warnings.warn(f"Result.{old} is Result.{new} now", DeprecationWarning, stacklevel=3)
    return value


def _attribute(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else "" if value is None else value


@dataclasses.dataclass(frozen=True, repr=False)
class Trace:
    """One run, step by step.

    Attributes:
        arms: int32 [samples], every pull in order, the initial ones first.
        rewards: float64 [samples], in the units of the instance.
        active: int32 [checks], what is left at each check, of which the first follows
            the initial pulls. Best arm and thresholding: active arms, or items. Top m:
            ordered pairs known worse. Half-spaces: active pieces. LLR stopping eliminates
            nothing.
        samples: int, samples drawn.
        stopped: bool, whether the stopping rule ended the run.
        answer: bool [K]; [P] of items.
        pulls: int32 [K].
        elimination_times: int32, as in `Result`; None where nothing was recorded.
        theta_hat_0: float64 [d], the estimate after the initial pulls.
    """

    arms: np.ndarray
    rewards: np.ndarray
    active: np.ndarray
    samples: int
    stopped: bool
    answer: np.ndarray
    pulls: np.ndarray
    elimination_times: np.ndarray | None
    theta_hat_0: np.ndarray

    @property
    def truncated(self) -> bool:
        """Whether the run was truncated."""
        return not self.stopped

    @staticmethod
    def assembled(job: Any, carry: Any) -> "Trace":
        """Build it from a job and the last `Carry` of its run."""
        raw, log, family = carry.out, carry.log, job.instance.family
        k = job.initial_pulls * job.instance.K
        samples = int(raw.samples[0, 0, 0])
        arms = np.concatenate([np.arange(k, dtype=np.int32) % job.instance.K, log.arm[k:samples]])
        rewards = np.concatenate([log.first_rewards, log.reward[k:samples]])
        return Trace(
            arms=arms,
            rewards=rewards.astype(np.float64) * family.scale,
            active=log.remaining[k : samples + 1],
            samples=samples,
            stopped=bool(raw.stopped[0, 0, 0]),
            answer=raw.answer[0, 0, 0],
            pulls=raw.pulls[0, 0, 0],
            elimination_times=None if raw.times[0] is None else raw.times[0][0, 0],
            theta_hat_0=log.theta_hat_0 * family.scale,
        )

    def __repr__(self) -> str:
        return f"<Trace {self.samples} samples, {'stopped' if self.stopped else 'truncated'}>"


__all__ = ["ArgumentError", "Result", "Summary", "Trace", "correct_answer"]

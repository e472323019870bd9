"""A call's arguments, checked on the host before anything compiles."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import checks, scope
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.contracts.traits import KNOWN_STOPPING
from jaxelim.errors import ArgumentError, UnsupportedError, in_words
from jaxelim.instances.instance import Instance
from jaxelim.problems.lanewise import traced_shape
from jaxelim.simulation import float32, memory, p_values
from jaxelim.simulation.basis import computed
from jaxelim.simulation.proven import proven
from jaxelim.stopping.elimination import SelectiveElimination
from jaxelim.stopping.resets import Resets
from jaxelim.thresholds.mixture import Mixture
from jaxelim.thresholds.piecewise import PieceThreshold, bound

LONGEST = 2**31 - 2**16  # t is int32, and a chunk may run past the cap
RECORDS = ("pair_times", "p_values")
"""What a call may record beside its arrays."""
_MAX_SAMPLES_FLOAT32 = 2**24  # counts have the floating type


@dataclasses.dataclass(frozen=True)
class Engine:
    """Layout of the work. `precision` changes results, `form` and `vmapped` may.

    These two round differently. That decides where choices tie on paper, and where
    features of very different size let rounding grow. Scores of linearly independent
    arms without a ridge tie to the last digit. The definitions, section 7, say which
    rules' runs may change. No other field changes a run.

    Args:
        lanes: lanes on each device, rounded up to a multiple of 16; None: chosen by
            backend and number of runs. With a number, runs stay side by side until the
            queue is empty, whatever the rule's `in_turn` says.
        chunk: steps between two refills of the lanes; None: chosen by backend and rule.
        devices: how many of JAX's devices to use; None: all (never more than
            there are runs).
        precision: "float64" or "float32". In float32 the statistics are recomputed
            every 256 samples, in float64, from counts and compensated reward sums. In
            float32 the number of lanes can change LazyTaS runs.
        vmapped: run the rule under `jax.vmap` even where it has a lanes-last form,
            which is faster and gives the same results. Where rounding alone decides,
            as where w* is not unique, the two forms may choose differently.
        form: the form of V^-1, "arms", "square" or "diagonal"; None: chosen by cost.
            Where rounding alone decides, forms may choose differently. Linearly
            independent arms without a ridge have the diagonal one, whatever is given.
        shrink: take the last runs of the queue one after the other in a single lane,
            which needs another compilation, for rules whose trait `one_lane` says that
            this changes nothing; None: on a CPU where it pays. All runs where the rule's
            `in_turn` says so.

    Raises:
        ArgumentError: a value is not allowed.
    """

    lanes: int | None = None
    chunk: int | None = None
    devices: int | None = None
    precision: str = "float64"
    vmapped: bool = False
    form: str | None = None
    shrink: bool | None = None

    def __post_init__(self):
        for name in ("lanes", "chunk", "devices"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checks.integer(name, value, low=1))
        checks.choice("precision", self.precision, ("float64", "float32"))
        if not isinstance(self.vmapped, bool):
            raise ArgumentError("vmapped", self.vmapped, "True or False")
        if self.shrink is not None and not isinstance(self.shrink, bool):
            raise ArgumentError("shrink", self.shrink, "None, True or False")
        if self.form is not None:
            checks.choice("form", self.form, ("arms", "square", "diagonal"))


@dataclasses.dataclass(frozen=True)
class Job:
    """The arguments of a call, checked by `Job.checked`."""

    instance: Instance
    problem: Problem
    rule: SamplingRule
    deltas: np.ndarray
    stopping: tuple[StoppingRule, ...]
    elimination: Any
    threshold: Callable
    runs: np.ndarray
    seed: int
    max_samples: int
    ridge: float | None
    noise: np.ndarray | None
    record: tuple[str, ...]
    layout: Engine
    initial_pulls: int  # of each arm

    @staticmethod
    def checked(
        instance,
        problem,
        rule,
        delta,
        stopping,
        elimination,
        threshold,
        runs,
        seed,
        max_samples,
        ridge,
        noise,
        record,
        layout,
        initial_pulls=None,
    ) -> "Job":
        if not isinstance(instance, Instance):
            raise ArgumentError(
                "instance", instance, "an Instance, such as load_instance('linear-d20')"
            )
        if not isinstance(problem, Problem):
            raise ArgumentError("problem", problem, "a problem such as BestArm()")
        if not isinstance(rule, SamplingRule):
            raise ArgumentError("rule", rule, "a sampling rule such as LinGapE()")
        if not isinstance(layout, Engine):
            raise ArgumentError("engine", layout, "an Engine(...)")
        deltas = checks.deltas(delta)
        rules = _stopping_rules(stopping)
        _check_runs_fit(instance, problem, deltas, rules, runs)
        indexes = checks.runs(runs)
        seed = checks.seed(seed)
        least = instance.family.initial_pulls
        first = least * instance.K
        max_samples = checks.integer("max_samples", max_samples, low=first, high=LONGEST)
        if layout.precision == "float32" and max_samples > _MAX_SAMPLES_FLOAT32:
            allowed = f"an integer from {first} to {_MAX_SAMPLES_FLOAT32} with precision='float32'"
            raise ArgumentError(
                "max_samples", max_samples, allowed, "float32 counts one by one up to 2^24"
            )
        initial_pulls = _initial_pulls(initial_pulls, instance, max_samples)
        first = initial_pulls * instance.K
        if ridge is not None:
            ridge = checks.real("ridge", ridge, low=0)
        if noise is not None:
            noise = checks.real_array("noise", noise, ndim=2)
            if noise.shape[0] != indexes.size or noise.shape[1] < first:
                least = "K" if initial_pulls == 1 else "initial_pulls K"
                raise ArgumentError(
                    "noise",
                    noise.shape,
                    f"shape [{indexes.size} runs, at least {least} = {first} samples]",
                )
            instance.family.check_noise(noise, layout.precision)
        instance.family.check_runs(indexes, initial_pulls, layout.precision)
        if not isinstance(record, str | Sequence):
            raise ArgumentError(
                "record", record, f"a sequence of names, of {' and '.join(map(repr, RECORDS))}"
            )
        record = (record,) if isinstance(record, str) else tuple(record)
        for name in record:
            checks.choice("record", name, RECORDS)
        for one in instance.unbatched:
            problem.check(one.arms, one.theta)
        instance.family.check_shape(problem, traced_shape(problem, instance.K, instance.d))
        if layout.precision == "float32":
            float32.check(instance, problem)
        ridge = instance.family.ridge_of(ridge, instance, threshold)
        p_values.check(record, instance, problem, ridge)
        if isinstance(threshold, PieceThreshold):
            call = dict(rule=rule, ridge=ridge, stopping=rules, elimination=elimination)
            threshold = bound(threshold, instance, problem, **call)
        _check_threshold(threshold, deltas, first, max_samples)
        _check_combination(instance, problem, rule, rules, elimination, threshold, deltas)
        if isinstance(elimination, Resets):
            _check_alpha(elimination, threshold, deltas, first, max_samples)
        _check_hashable(problem=problem, rule=rule, elimination=elimination, threshold=threshold)
        job = Job(
            instance=instance,
            problem=problem,
            rule=rule,
            deltas=deltas,
            stopping=rules,
            elimination=elimination,
            threshold=threshold,
            runs=indexes,
            seed=seed,
            max_samples=max_samples,
            ridge=ridge,
            noise=noise,
            record=record,
            layout=layout,
            initial_pulls=initial_pulls,
        )
        if layout.form is not None:
            _check_form(layout.form, job.computed, problem)
        proven(job)  # refuses what contradicts the threshold's terms
        instance.family.warn(ridge, instance, threshold, float(deltas.max()))
        return job

    @cached_property
    def computed(self) -> Instance:
        """The instance that the runs are computed on."""
        return computed(self)

    @property
    def evidence(self) -> PieceThreshold | None:
        """The mixture whose evidence is recorded, for p-values; None: nothing is."""
        if "p_values" not in self.record:
            return None
        return self.threshold if isinstance(self.threshold, Mixture) else Mixture(pieces=1)

    @property
    def shared(self) -> bool:
        """Whether all deltas can be observed on one trajectory."""
        return self.deltas.size == 1 or not (
            self.rule.traits.uses_delta or self.elimination is not None
        )


def _initial_pulls(given: Any, instance: Instance, max_samples: int) -> int:
    """The number of initial pulls of each arm; None: the family's least."""
    family, most = instance.family, max_samples // instance.K
    if given is None:
        return family.initial_pulls
    try:
        return checks.integer("initial_pulls", given, low=family.initial_pulls, high=most)
    except ArgumentError:
        low = f"an integer from {family.initial_pulls}, the least for {family!r},"
        allowed = f"None, or {low} to {most}, which max_samples leaves for K = {instance.K}"
        raise ArgumentError("initial_pulls", given, allowed) from None


def _check_form(form: str, instance: Instance, problem: Problem) -> None:
    """Refuse a form of the design that is not exact, or that the family does not have."""
    allowed = list(instance.family.forms(instance, problem))
    if not allowed:
        raise ArgumentError("form", form, f"None: {instance.family!r} keeps no design")
    if form not in allowed:
        raise ArgumentError("form", form, f"one of {allowed} for this instance and problem")


def _check_runs_fit(
    instance: Instance,
    problem: Problem,
    deltas: np.ndarray,
    stopping: tuple[StoppingRule, ...],
    runs: Any,
) -> None:
    """Refuse a number of runs whose indices and results would not fit into memory.

    Runs before these arrays exist.
    """
    if (
        isinstance(runs, int | np.integer)
        and not isinstance(runs, bool)
        and 0 < runs <= checks.MAX_RUNS
    ):
        each = memory.of_a_run(instance.K, problem.width(instance.K), len(stopping) * deltas.size)
        size = int(runs) * (8 + 2 * instance.size * each)
        memory.check([memory.Part("runs", int(runs), "its runs and their results", size)])


def _stopping_rules(stopping: Any) -> tuple[StoppingRule, ...]:
    rules = (stopping,) if isinstance(stopping, StoppingRule) else stopping
    if (
        not isinstance(rules, Sequence)
        or not rules
        or not all(isinstance(rule, StoppingRule) for rule in rules)
    ):
        raise ArgumentError(
            "stopping", stopping, "a stopping rule such as LLR(), or a non-empty sequence of them"
        )
    for rule in rules:
        if not rule.name:
            raise ArgumentError("stopping", rule, "a stopping rule whose class has a `name`")
        if rule.name in KNOWN_STOPPING and not checks.shipped(rule):
            allowed = f"a `name` other than {', '.join(map(repr, KNOWN_STOPPING))}, which are taken"
            raise ArgumentError("stopping", rule, allowed)
    if len({rule.name for rule in rules}) < len(rules):
        allowed = "stopping rules of different `name`: results are told apart by it"
        raise ArgumentError("stopping", stopping, allowed)
    return tuple(rules)


def _check_threshold(threshold: Any, deltas: np.ndarray, first: int, last: int) -> None:
    """Refuse a threshold that is not finite and positive at the times of a run.

    It also must not decrease in t, nor increase in delta.
    """
    if not callable(threshold) or isinstance(threshold, type):
        raise ArgumentError(
            "threshold", threshold, "a threshold such as Heuristic(), or a callable of (t, delta)"
        )
    values = _levels("threshold", threshold, threshold, deltas, first, last)
    slack = 1e-12 * np.abs(values).max()
    if np.any(np.diff(values, axis=1) < -slack):
        raise ArgumentError("threshold", threshold, "a threshold that does not decrease in t")
    if np.any(np.diff(values, axis=0) < -slack):
        raise ArgumentError("threshold", threshold, "a threshold that does not increase in delta")


def _levels(
    argument: str, given: Any, f: Callable, deltas: np.ndarray, first: int, last: int
) -> np.ndarray:
    """f(t, delta) from the largest delta to the smallest, at times from `first` to
    `last`: [deltas, times].

    Raises:
        ArgumentError: f cannot be traced, raises, or does not give one finite number
            above 0 per t.
    """
    # Always 200 times, so that few programs are compiled; in short ranges times repeat.
    times = np.round(np.geomspace(first, max(last, first + 1), 200))
    falling = np.sort(deltas)[::-1]
    like = jax.ShapeDtypeStruct(times.shape, np.float64)
    with scope.engine():
        try:
            jax.eval_shape(f, like, like)  # NumPy's functions take arrays, but no tracers
            values = np.array(
                [np.asarray(f(jax.device_put(times), jnp.full(times.shape, d))) for d in falling]
            )
        except Exception as error:
            allowed = "a callable of (t, delta) made of jax.numpy operations"
            raise ArgumentError(argument, given, allowed, f"it raised {in_words(error)}") from error
    if values.shape != (falling.size, times.size) or values.dtype.kind != "f":
        note = f"it gave {values.dtype} of shape {values.shape[1:]}"
        raise ArgumentError(argument, given, "one real number per t", note)
    for allowed, good in (("finite values", np.isfinite(values)), ("values above 0", values > 0)):
        if not good.all():
            row, column = np.argwhere(~good)[0]
            note = (
                f"at t = {times[column]:g}, delta = {falling[row]:g} it is {values[row, column]:g}"
            )
            raise ArgumentError(argument, given, allowed, note)
    return values


def _check_hashable(**given: Any) -> None:
    """Refuse arguments that are not hashable; they are keys in the cache of programs."""
    for name, value in given.items():
        try:
            hash(value)
        except TypeError as error:
            allowed = (
                "something hashable, such as a frozen dataclass of hashable fields, or a function"
            )
            raise ArgumentError(name, value, allowed, in_words(error)) from error


def _check_alpha(
    elimination: Resets, threshold: Any, deltas: np.ndarray, first: int, last: int
) -> None:
    """Refuse a level alpha of elimination at sampling that is not finite and positive."""
    argument, given = "alpha", elimination.alpha
    if given is None:
        argument, given = "threshold", threshold
    _levels(
        argument,
        given,
        lambda t, delta: elimination.level(threshold, t, delta),
        deltas,
        first,
        last,
    )


_METHODS = {
    "design": "a design, such as Gaussian() with one standard deviation",
    "interval": "confidence intervals of means",
    "posterior": "a posterior to draw means from",
    "share": "an information-directed share",
}
"""What methods of a family are called in messages."""


def _check_combination(instance, problem, rule, stopping, elimination, threshold, deltas) -> None:
    """Refuse combinations that the paper does not define."""
    name, traits = type(rule).__name__, rule.traits
    if not traits.defined_for(problem.name):
        allowed = f"one that {name} is defined for: {', '.join(traits.problems)}"
        if problem.name == "best-item":
            allowed += "; items have no pulls and no rewards of their own"
        raise UnsupportedError("problem", problem, allowed)
    if problem.epsilon and not traits.slack:
        raise UnsupportedError("problem", problem, f"epsilon=0: {name} is not defined with slack")
    if instance.structure not in traits.structures:
        allowed = f"{' or '.join(traits.structures)} arms: {name} is not defined for others"
        raise UnsupportedError("instance", instance.structure, allowed)
    family = instance.family
    if traits.families is not None and family.name not in traits.families:
        allowed = f"{' or '.join(traits.families)} rewards: {name} is not defined for others"
        raise UnsupportedError("family", family, allowed)
    needed = list(rule.needs(family, problem))
    if traits.families == ("gaussian",):
        needed.append("design")
    missing = [method for method in needed if not family.has(method)]
    if missing:
        kind = " and ".join(_METHODS.get(method, f"a {method}") for method in missing)
        allowed = f"a family with {kind}: {name} on {problem.name} is not defined for others"
        raise UnsupportedError("family", family, allowed)
    for one in stopping:
        # A user's own stopping rule is not in the traits: it only observes.
        if one.name in KNOWN_STOPPING and one.name not in traits.stopping:
            raise UnsupportedError(
                "stopping", one, f"{name} stops by: {', '.join(traits.stopping)}"
            )
    if elimination is None:
        return
    if not isinstance(elimination, SelectiveElimination | Resets):
        raise ArgumentError(
            "elimination",
            elimination,
            "None, SelectiveElimination(), FullElimination() or Resets(...)",
        )
    if problem.epsilon:
        allowed = "None: elimination at sampling is not defined with slack"
        raise UnsupportedError("elimination", elimination, allowed)
    if not traits.elimination:
        raise UnsupportedError(
            "elimination", elimination, f"None: {name} does not look at pieces when it samples"
        )
    if isinstance(elimination, Resets):
        elimination.check(threshold, deltas)
    if elimination.shared and (len(stopping) > 1 or type(stopping[0]) is not type(elimination)):
        raise UnsupportedError(
            "stopping",
            stopping,
            f"{elimination!r} alone: with a shared set, sampling stops looking at the pieces that "
            "this stopping rule has dropped, and any other rule would wait for them for ever",
        )

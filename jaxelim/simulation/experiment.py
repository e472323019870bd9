"""A call as a value: its arguments, checked on the host before anything compiles."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypedDict, TypeVar

import numpy as np

from jaxelim import checks
from jaxelim.contracts import KNOWN_STOPPING, Problem, SamplingRule, StoppingRule
from jaxelim.errors import ArgumentError
from jaxelim.families import draws as random
from jaxelim.instances.arms import Arms
from jaxelim.instances.instance import Instance
from jaxelim.numerics.jacobi import least_squares
from jaxelim.returned import traced_shape
from jaxelim.simulation import refusals
from jaxelim.simulation.refusals import proven
from jaxelim.simulation.results.descriptions import key_of
from jaxelim.stopping import LLR, Resets, SelectiveElimination
from jaxelim.thresholds import Heuristic, KaufmannKoolen, Mixture

LONGEST = 2**31 - 2**16  # t is int32, and a chunk may run past the cap
F = TypeVar("F", bound=Callable)
RECORDS = ("pair_times", "means")  # what a call may record beside its arrays


@dataclasses.dataclass(frozen=True)
class Engine:
    """Layout of the work. It changes no run.

    Args:
        lanes: lanes on each device, rounded up to a multiple of 16; None: chosen by backend and
            number of runs. With a number, runs stay side by side until the queue is empty.
        chunk: steps between two refills of the lanes; None: chosen.
        devices: how many of JAX's devices to use; None: all (never more than
            there are runs). With JAX 0.11.2 it is one, as its compiler fails on several.
        shrink: whether one lane takes the last runs, one after the other, which needs another
            compilation. None: on a CPU the last eight, if the others took longer than that.
            Unless it is False, all runs of a rule with rare work are taken so. Those of rules
            that are not `lanes_last` never are.

    Raises:
        ArgumentError: a value is not allowed.
    """

    lanes: int | None = None
    chunk: int | None = None
    devices: int | None = None
    shrink: bool | None = None

    def __post_init__(self):
        for name in ("lanes", "chunk", "devices"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checks.integer(name, value, low=1))
        if self.shrink is not None and not isinstance(self.shrink, bool):
            raise ArgumentError("shrink", self.shrink, "None, True or False")


def of_truth(instance: Any) -> Instance:
    """An instance whose theta is known, as all but live runs need."""
    if not isinstance(instance, Instance):
        allowed = "an Instance, such as load_instance('linear-d20')"
        raise ArgumentError("instance", instance, allowed)
    return instance


class Settings(TypedDict, total=False):
    """The arguments of `simulate` beside instance, problem and rule; see there."""

    delta: Any
    stopping: StoppingRule | Sequence[StoppingRule]
    elimination: Any
    threshold: Callable
    runs: Any
    seed: int
    max_samples: int
    ridge: float | None
    noise: Any
    record: str | Sequence[str]
    engine: Engine
    initial_pulls: int | None
    batch: int
    delay: int


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """A call of `simulate` as a value: its arguments, checked and converted.

    Run r is a function of it and of r. A result has it as `experiment`. Its arguments are those
    of `simulate`; the instance of a live run is `Arms`, whose theta nobody knows. Converted,
    `delta` is float64 [D], `stopping` a tuple, `runs` the run indices, int64 [R], and `ridge`
    and `initial_pulls` are the family's where None was given.

    Raises:
        ArgumentError, UnsupportedError: as `simulate`.
    """

    instance: Any
    problem: Any
    rule: Any
    _: dataclasses.KW_ONLY
    delta: Any = 0.01
    stopping: Any = LLR()  # noqa: RUF009 (frozen)
    elimination: Any = None
    threshold: Any = Heuristic()  # noqa: RUF009 (frozen)
    runs: Any = 1000
    seed: Any = 0
    max_samples: Any = checks.MAX_SAMPLES
    ridge: Any = None
    noise: Any = None
    record: Any = ()
    engine: Any = Engine()  # noqa: RUF009 (frozen)
    initial_pulls: Any = None
    batch: Any = 1
    delay: Any = 0

    def __post_init__(self) -> None:
        self._set(_given=self.fields)
        instance, problem, sets = self.instance, self.problem, SelectiveElimination | Resets | None
        if not isinstance(instance, Arms):
            of_truth(instance)
        for name, kind, allowed in (
            ("problem", Problem, "a problem such as BestArm()"),
            ("rule", SamplingRule, "a sampling rule such as LinGapE()"),
            ("engine", Engine, "an Engine(...)"),
            ("elimination", sets, "None, SelectiveElimination(), FullElimination() or Resets(...)"),
        ):
            if not isinstance(getattr(self, name), kind):
                raise ArgumentError(name, getattr(self, name), allowed)
        family, first = instance.family, instance.family.initial_pulls * instance.K
        most = checks.integer("max_samples", self.max_samples, low=first, high=LONGEST)
        self._set(
            delta=checks.deltas(self.delta), stopping=_stopping_rules(self.stopping),
            runs=checks.runs(self.runs), seed=checks.seed(self.seed), max_samples=most,
            initial_pulls=_initial_pulls(self.initial_pulls, instance, most),
            batch=checks.integer("batch", self.batch, low=1, high=most),
            delay=checks.integer("delay", self.delay, low=0, high=most),
            record=_record(self.record),
        )  # fmt: skip
        if self.ridge is not None:
            self._set(ridge=checks.real("ridge", self.ridge, low=0))
        if self.noise is not None:
            self._set(noise=_noise(self, instance))
        if instance.source is not None:
            instance.source.check_runs(self.runs, self.initial_pulls)
        for features in instance.arms if instance.batched else (instance.arms,):
            problem.check_arms(features)
        # Where means are no products of features and theta, a problem may compare means alone.
        own = problem.uses_theta or not family.has("mean")
        for one in instance.truth.unbatched if instance.truth else ():
            problem.check(*((one.arms, one.theta) if own else (np.eye(one.K), one.means)))
        family.check_shape(problem, traced_shape(problem, instance.K, instance.d))
        self._set(ridge=family.ridge_of(self.ridge, instance))
        if isinstance(self.threshold, Mixture | KaufmannKoolen):
            own = ("rule", "ridge", "stopping", "elimination")
            others = {name: getattr(self, name) for name in own}
            self._set(threshold=self.threshold.bound(instance, problem, **others))
        refusals.check(self)
        proven(self)  # refuses what contradicts the threshold's terms

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def unchecked(cls, **fields: Any) -> "Experiment":
        """An experiment of all fields as they are, such as one of a file."""
        made = object.__new__(cls)
        made._set(**fields, _given=fields)
        return made

    def replace(self, **changes: Any) -> "Experiment":
        """This experiment with other arguments, checked again: it raises as `simulate`."""
        return Experiment(**vars(self)["_given"] | changes)

    @property
    def fields(self) -> dict[str, Any]:
        """All arguments by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    key = property(key_of, doc="A hash of what determines the numbers of a run; see `key_of`.")

    @cached_property
    def computed(self) -> Arms:
        """The instance in the coordinates of the computation.

        Without a ridge, d linearly independent arms are the basis of other coordinates, where
        theta is their means, V is diagonal, and choices that tie on paper tie to the last digit.
        They are taken where nothing reads coordinates. A mixture keeps the given ones: it has
        another test for unstructured instances.
        """
        instance, truth = self.instance, self.instance.truth
        linear = instance.structure == "linear" and instance.family.design and self.ridge == 0
        free = self.rule.traits.basis_free and not self.problem.uses_theta
        free = free and not isinstance(self.threshold, Mixture)
        if not (linear and free and all(rule.name in KNOWN_STOPPING for rule in self.stopping)):
            return instance
        arms, theta = np.array(instance.arms), np.array(truth.theta if truth else 0)
        for i in np.ndindex(arms.shape[:-2]):
            kinds, kind = _kinds(arms[i])
            if len(kinds) == instance.d:  # they span R^d: see `Gaussian.ridge_of`
                arms[i] = np.eye(instance.d)[kind]
                if truth is not None:
                    theta[i] = truth.means[i][kinds]
        if np.array_equal(arms, instance.arms):
            return instance
        if truth is None:
            return Arms(arms, instance.family, instance.names, costs=instance.costs)
        return truth.replace(arms=arms, theta=theta)

    def in_the_given_coordinates(self, theta_hat: np.ndarray) -> np.ndarray:
        """An estimate [d] of theta in the coordinates of the instance, not a batch."""
        arms, same = self.instance.arms, self.computed is self.instance
        return theta_hat if same else least_squares(arms[_kinds(arms)[0]], theta_hat)

    @property
    def waits(self) -> bool:
        """Whether rewards wait: in batches, or for a delay."""
        return self.batch > 1 or self.delay > 0

    @property
    def shared(self) -> bool:
        """Whether all deltas can be observed on one trajectory."""
        reads = "delta" in self.rule.traits.reads or self.elimination is not None
        return self.delta.size == 1 or not reads

    @property
    def trajectories(self) -> int:
        """The number of trajectories of each run."""
        return self.instance.size * (1 if self.shared else self.delta.size)

    @property
    def cap(self) -> int:
        """The most samples of a run, its noise included."""
        most = self.max_samples
        return most if self.noise is None else min(most, self.noise.shape[1])

    def on_one_device(self) -> "Experiment":
        """This experiment, laid out on one device."""
        layout = dataclasses.replace(self.engine, devices=1)
        return Experiment.unchecked(**self.fields | {"engine": layout})

    def part(self, runs: np.ndarray) -> "Experiment":
        """This experiment with some of its runs [n], in the order given, and their noise."""
        noise = self.noise
        if noise is not None:
            order = np.argsort(self.runs)
            rows = order[np.searchsorted(self.runs, runs, sorter=order)]
            together = rows.size > 0 and bool((np.diff(rows) == 1).all())  # then it is a view
            noise = noise[rows[0] : rows[-1] + 1] if together else noise[rows]
        return Experiment.unchecked(**self.fields | {"runs": runs, "noise": noise})


def takes_settings(*left_out: str, **defaults: Any) -> Callable[[F], F]:
    """Give a function with `**settings` their signature, but those `left_out`, and `defaults`."""

    def signed(function: F) -> F:
        own = inspect.signature(function)
        first = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        known = inspect.signature(Experiment).parameters
        more = [
            known[name].replace(annotation=kind, default=defaults.get(name, known[name].default))
            for name, kind in Settings.__annotations__.items()
            if name not in left_out
        ]
        setattr(function, "__signature__", own.replace(parameters=[*first, *more]))  # noqa: B010
        return function

    return signed


def _noise(call: Experiment, instance: Arms) -> np.ndarray:
    """Noise [runs, T] with a row for each run, until the first reward beside the initial pulls."""
    noise, first = checks.real_array("noise", call.noise, ndim=2), call.initial_pulls * instance.K
    more = -(-(1 + call.delay) // call.batch) * call.batch * call.waits
    if noise.shape[0] != call.runs.size or noise.shape[1] < first + more:
        allowed = f"shape [{call.runs.size} runs, at least {first + more} samples]: "
        allowed += f"{first} initial pulls" + f", and {more} until a reward enters" * call.waits
        raise ArgumentError("noise", noise.shape, allowed)
    drawn = instance.source or instance.family
    random.check(drawn.noise, noise, drawn)
    return noise


def _record(record: Any) -> tuple[str, ...]:
    names = [record] if isinstance(record, str) else record
    if not isinstance(names, Sequence):
        allowed = f"a sequence of names, of {' and '.join(map(repr, RECORDS))}"
        raise ArgumentError("record", record, allowed)
    return tuple(checks.choice("record", name, RECORDS) for name in names)


def _initial_pulls(pulls: Any, instance: Arms, max_samples: int) -> int:
    least, most = instance.family.initial_pulls, max_samples // instance.K
    try:
        given = least if pulls is None else pulls
        return checks.integer("initial_pulls", given, low=least, high=most)
    except ArgumentError:
        low = f"an integer from {least}, the least for {instance.family!r},"
        allowed = f"None, or {low} to {most}, which max_samples leaves for K = {instance.K}"
        raise ArgumentError("initial_pulls", pulls, allowed) from None


def _stopping_rules(stopping: Any) -> tuple[StoppingRule, ...]:
    rules = (stopping,) if isinstance(stopping, StoppingRule) else stopping
    several = isinstance(rules, Sequence) and bool(rules)
    if not several or not all(isinstance(rule, StoppingRule) for rule in rules):
        allowed = "a stopping rule such as LLR(), or a non-empty sequence of them"
        raise ArgumentError("stopping", stopping, allowed)
    for rule in rules:
        if not rule.name or (rule.name in KNOWN_STOPPING and not checks.shipped(rule)):
            taken = ", ".join(map(repr, KNOWN_STOPPING))
            allowed = f"a stopping rule whose class has a `name`, other than {taken}"
            raise ArgumentError("stopping", rule, allowed)
    if len({rule.name for rule in rules}) < len(rules):
        allowed = "stopping rules of different `name`: results are told apart by it"
        raise ArgumentError("stopping", stopping, allowed)
    return tuple(rules)


def _kinds(arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each set of equal arms, in order; and the place among them of each arm."""
    _, first, kind = np.unique(arms, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[kind.reshape(-1)]

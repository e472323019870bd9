"""A call's arguments, checked on the host before anything compiles."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.contracts.traits import KNOWN_STOPPING
from jaxelim.errors import ArgumentError
from jaxelim.families import noise as random
from jaxelim.instances.arms import Arms
from jaxelim.instances.instance import Instance
from jaxelim.problems.lanewise import traced_shape
from jaxelim.simulation import refusals
from jaxelim.simulation.basis import computed
from jaxelim.simulation.results.proven import proven
from jaxelim.thresholds.mixture import Mixture

LONGEST = 2**31 - 2**16  # t is int32, and a chunk may run past the cap
RECORDS = ("pair_times", "means")
"""What a call may record beside its arrays."""


@dataclasses.dataclass(frozen=True)
class Engine:
    """Layout of the work. It changes no run.

    Args:
        lanes: lanes on each device, rounded up to a multiple of 16; None: chosen by
            backend and number of runs. With a number, runs stay side by side until the
            queue is empty.
        chunk: steps between two refills of the lanes; None: chosen by backend and rule.
        devices: how many of JAX's devices to use; None: all (never more than
            there are runs). With JAX 0.11.2 it is one, as its compiler fails on several.
        shrink: take runs one after the other in a single lane, which needs another
            compilation: the last runs of the queue, and all runs of a rule with rare work.
            None: on a CPU where it pays, by the time that runs have taken so far. It
            needs a rule that is lanes last, and float64.

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedCall:
    """The arguments of `simulate` that decide or lay out its runs, as `checked` returns them.

    Every later part of a call takes this object, and no argument of its own.
    """

    instance: Arms  # an `Instance` but in live runs, where nobody knows theta
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
    engine: Engine
    initial_pulls: int  # of each arm
    batch: int  # pulls whose rewards enter together
    delay: int  # further pulls before a reward enters

    @staticmethod
    def checked(
        *,
        instance: Any,
        problem: Any,
        rule: Any,
        delta: Any,
        stopping: Any,
        elimination: Any,
        threshold: Any,
        runs: Any,
        seed: Any,
        max_samples: Any,
        ridge: Any = None,
        noise: Any = None,
        record: Any = (),
        engine: Any = Engine(),  # noqa: B008 (frozen)
        initial_pulls: Any = None,
        batch: Any = 1,
        delay: Any = 0,
        truth: bool = True,
    ) -> "CheckedCall":
        """Check the arguments, which are those of `simulate`.

        Without `truth` arms will do for an instance, and nothing that theta decides is checked.

        Raises:
            ArgumentError, UnsupportedError: as `simulate`.
        """
        if not isinstance(instance, Instance if truth else Arms):
            allowed = "an Instance, such as load_instance('linear-d20')"
            raise ArgumentError("instance", instance, allowed)
        if not isinstance(problem, Problem):
            raise ArgumentError("problem", problem, "a problem such as BestArm()")
        if not isinstance(rule, SamplingRule):
            raise ArgumentError("rule", rule, "a sampling rule such as LinGapE()")
        if not isinstance(engine, Engine):
            raise ArgumentError("engine", engine, "an Engine(...)")
        family = instance.family
        deltas = checks.deltas(delta)
        stopping = _stopping_rules(stopping)
        runs, seed = checks.runs(runs), checks.seed(seed)
        first = family.initial_pulls * instance.K
        max_samples = checks.integer("max_samples", max_samples, low=first, high=LONGEST)
        initial_pulls = _initial_pulls(initial_pulls, instance, max_samples)
        batch = checks.integer("batch", batch, low=1, high=max_samples)
        delay = checks.integer("delay", delay, low=0, high=max_samples)
        if ridge is not None:
            ridge = checks.real("ridge", ridge, low=0)
        if noise is not None:
            noise = _noise(noise, runs.size, initial_pulls, instance.K)
            _check_noise_lasts(noise, initial_pulls * instance.K, batch, delay)
            drawn = instance.source or family
            random.check(drawn.noise, noise, drawn)
        if instance.source is not None:
            instance.source.check_runs(runs, initial_pulls)
        record = _record(record)
        for features in instance.arms if instance.batched else (instance.arms,):
            problem.check_arms(features)
        for single in instance.truth.unbatched if instance.truth else ():
            problem.check(*single.compared(problem))
        family.check_shape(problem, traced_shape(problem, instance.K, instance.d))
        ridge = family.ridge_of(ridge, instance)
        if isinstance(threshold, Mixture):
            others = dict(rule=rule, ridge=ridge, stopping=stopping, elimination=elimination)
            threshold = threshold.bound(instance, problem, **others)
        call = CheckedCall(
            instance=instance, problem=problem, rule=rule, deltas=deltas, stopping=stopping,
            elimination=elimination, threshold=threshold, runs=runs, seed=seed,
            max_samples=max_samples, ridge=ridge, noise=noise, record=record, engine=engine,
            initial_pulls=initial_pulls, batch=batch, delay=delay,
        )  # fmt: skip
        refusals.check(call)
        proven(call)  # refuses what contradicts the threshold's terms
        return call

    @property
    def truth(self) -> Instance:
        """The instance of a call whose theta is known."""
        assert isinstance(self.instance, Instance)
        return self.instance

    @cached_property
    def computed(self) -> Arms:
        """The instance that the runs are computed on."""
        return computed(self)

    @property
    def waits(self) -> bool:
        """Whether rewards wait: in batches, or for a delay."""
        return self.batch > 1 or self.delay > 0

    @property
    def waiting(self) -> dict[str, Any]:
        """Batch and delay as settings have them; nothing where no reward waits."""
        return {"batch": self.batch, "delay": self.delay} if self.waits else {}

    @property
    def shared(self) -> bool:
        """Whether all deltas can be observed on one trajectory."""
        return self.deltas.size == 1 or not (
            "delta" in self.rule.traits.reads or self.elimination is not None
        )

    @property
    def trajectories(self) -> int:
        """The number of trajectories of each run: of each instance, and of each delta apart."""
        return self.instance.size * (1 if self.shared else self.deltas.size)

    @property
    def cap(self) -> int:
        """The most samples of a run, its noise included."""
        return (
            self.max_samples if self.noise is None else min(self.max_samples, self.noise.shape[1])
        )

    def part(self, runs: np.ndarray) -> "CheckedCall":
        """This call with some of its runs [n], in the order given, and their noise."""
        if self.noise is None:
            return dataclasses.replace(self, runs=runs)
        order = np.argsort(self.runs)
        rows = order[np.searchsorted(self.runs, runs, sorter=order)]
        together = rows.size > 0 and bool((np.diff(rows) == 1).all())  # then the noise is a view
        noise = self.noise[rows[0] : rows[-1] + 1] if together else self.noise[rows]
        return dataclasses.replace(self, runs=runs, noise=noise)


def _noise(noise: Any, runs: int, initial_pulls: int, arms: int) -> np.ndarray:
    """Noise [runs, T] with a row for each run, which must last for the initial pulls."""
    noise, first = checks.real_array("noise", noise, ndim=2), initial_pulls * arms
    if noise.shape[0] != runs or noise.shape[1] < first:
        least = "K" if initial_pulls == 1 else "initial_pulls K"
        allowed = f"shape [{runs} runs, at least {least} = {first} samples]"
        raise ArgumentError("noise", noise.shape, allowed)
    return noise


def _check_noise_lasts(noise: np.ndarray, first: int, batch: int, delay: int) -> None:
    """Refuse noise [runs, T] that ends before the first reward could enter."""
    least = first + -(-(1 + delay) // batch) * batch
    if (batch > 1 or delay) and noise.shape[1] < least:
        allowed = f"at least {least} samples: {first} initial pulls, and {least - first} until a "
        allowed += f"reward enters with batch={batch} and delay={delay}"
        raise ArgumentError("noise", noise.shape, allowed)


def _record(record: Any) -> tuple[str, ...]:
    """The names of what is recorded."""
    if not isinstance(record, str | Sequence):
        allowed = f"a sequence of names, of {' and '.join(map(repr, RECORDS))}"
        raise ArgumentError("record", record, allowed)
    names = (record,) if isinstance(record, str) else tuple(record)
    return tuple(checks.choice("record", name, RECORDS) for name in names)


def _initial_pulls(pulls: Any, instance: Arms, max_samples: int) -> int:
    """The number of initial pulls of each arm; None: the family's least."""
    family, most = instance.family, max_samples // instance.K
    if pulls is None:
        return family.initial_pulls
    try:
        return checks.integer("initial_pulls", pulls, low=family.initial_pulls, high=most)
    except ArgumentError:
        low = f"an integer from {family.initial_pulls}, the least for {family!r},"
        allowed = f"None, or {low} to {most}, which max_samples leaves for K = {instance.K}"
        raise ArgumentError("initial_pulls", pulls, allowed) from None


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

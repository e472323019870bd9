"""A live run's arguments, checked before anything compiles; its spec and its inputs."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxelim import checks, scope
from jaxelim.contracts import SamplingRule, StoppingRule
from jaxelim.contracts.items import Items
from jaxelim.contracts.shapes import Levels, Rows
from jaxelim.engine import LANE_GROUP, Inputs, Queue, Spec
from jaxelim.errors import ArgumentError, TieError, UnsupportedError
from jaxelim.families import Gaussian, Recorded
from jaxelim.instances.instance import Instance
from jaxelim.problems.lanewise import traced_shape
from jaxelim.simulation.call import LONGEST, CheckedCall, Engine
from jaxelim.simulation.plan import checked_inputs_of, queue_of, spec_of
from jaxelim.thresholds.mixture import Mixture

MOST_WITH_P_VALUES = 64
"""Most arms of a run that keeps p-values; the work of a look grows with their square."""
_TRIES = 40
"""Stand-ins for theta to try until one has a unique answer."""


@dataclasses.dataclass(frozen=True)
class Arms:
    """The arms of a live run.

    Attributes:
        features: [K, d].
        names: [K], or None where arms are numbers.
    """

    features: np.ndarray
    names: tuple[str, ...] | None

    @staticmethod
    def of(given: Any) -> "Arms":
        """From features [K, d], a number K, K names, or a mapping of names to features.

        Raises:
            ArgumentError: it is none of these.
        """
        allowed = "features [K, d], a number K >= 2, K different names, or a mapping of both"
        if isinstance(given, int | np.integer) and not isinstance(given, bool):
            return Arms(np.eye(checks.integer("arms", given, low=2)), None)
        if isinstance(given, Mapping):
            features = checks.real_array("arms", list(given.values()), ndim=2)
            return Arms(features, _names(list(given), given, allowed))
        if isinstance(given, str | bytes):
            raise ArgumentError("arms", given, allowed)
        if isinstance(given, Sequence) and any(isinstance(one, str) for one in given):
            return Arms(np.eye(len(given)), _names(given, given, allowed))
        return Arms(checks.real_array("arms", given, ndim=2), None)

    def index(self, arm: Any) -> int:
        """The index of an arm, by its name or its number.

        Raises:
            UnknownNameError: there is no arm of this name.
            ArgumentError: it is no arm.
        """
        if isinstance(arm, str) and self.names is not None:
            return self.names.index(checks.choice("arm", arm, self.names))
        return checks.integer("arm", arm, low=0, high=len(self.features) - 1)

    def name(self, k: int) -> Any:
        """What the caller calls arm k."""
        return int(k) if self.names is None else self.names[k]


def _names(found: Sequence[Any], given: Any, allowed: str) -> tuple[str, ...]:
    plain = all(isinstance(one, str) and one.isprintable() and one.strip() for one in found)
    if not plain or len(set(found)) < len(found) or len(found) < 2:
        raise ArgumentError("arms", given, allowed)
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class LiveJob:
    """The checked arguments of a live run, and what its program needs."""

    arms: Arms
    call: CheckedCall
    spec: Spec
    inputs: Inputs
    queue: Queue

    @staticmethod
    def checked(
        arms: Arms, *, rule: Any, family: Any, delta: Any, stopping: Any, run: Any, **others: Any
    ) -> "LiveJob":
        """Check the arguments of a `LiveRun` as `simulate` does, but for the truth.

        Raises:
            ArgumentError, UnsupportedError, FamilyError, RuleError, MemoryLimitError: as
                `simulate`.
        """
        if isinstance(rule, SamplingRule) and rule.traits.uses_truth:
            allowed = "a rule that needs no theta, such as an oracle with weights of its own"
            raise ArgumentError("rule", rule, allowed, "nobody knows theta in a live run")
        if not isinstance(stopping, StoppingRule):
            raise ArgumentError("stopping", stopping, "one stopping rule")
        delta = checks.real("delta", delta, low=0, high=1, open=True)
        run = checks.integer("run", run, low=0, high=checks.MAX_RUNS - 1)
        family = Gaussian() if family is None else family
        if isinstance(family, Recorded):
            allowed = "the family that it wraps: the rewards of a live run are told"
            raise UnsupportedError("family", family, allowed)
        layout = Engine(lanes=LANE_GROUP, devices=1)

        def checked(instance: Instance) -> CheckedCall:
            return CheckedCall.checked(
                instance=instance, rule=rule, delta=delta, stopping=stopping, runs=np.array([run]),
                max_samples=LONGEST, record=("pair_times",), engine=layout, **others,
            )  # fmt: skip

        call = _with_a_stand_in(arms.features, family, checked)
        changes: Any = dict(lanes=LANE_GROUP, queue=LANE_GROUP, devices=1, one_kernel=False,
                            evidence=_kept(call))  # fmt: skip
        spec = dataclasses.replace(spec_of(call), **changes)
        with scope.engine():
            inputs = checked_inputs_of(call, spec)
            inputs = dataclasses.replace(inputs, nature=())  # nothing here draws rewards
            queue = queue_of(call, spec)[0]
            return LiveJob(arms, call, spec, *jax.device_put((inputs, queue)))

    @property
    def first(self) -> int:
        """The number of initial pulls."""
        return self.call.initial_pulls * len(self.arms.features)


def _kept(call: CheckedCall) -> Mixture | None:
    """The mixture whose largest log e of each piece is kept, for p-values; None: nothing is.

    It is that of the threshold, for pieces that have an index of their own.
    """
    shape = traced_shape(call.problem, call.instance.K, call.instance.d)
    indexed = isinstance(shape, Levels | Rows | Items)
    count = shape.exists.shape[0] if isinstance(shape, Items) else call.instance.K
    if not indexed or count > MOST_WITH_P_VALUES:
        return None
    return call.threshold if isinstance(call.threshold, Mixture) else None


def _with_a_stand_in(
    features: np.ndarray, family: Any, checked: Callable[[Instance], CheckedCall]
) -> CheckedCall:
    """The call of an instance whose theta is made up; nothing that a live run does reads it."""
    tie: TieError | None = None
    for attempt in range(_TRIES):
        try:
            return checked(Instance(features, stand_in(features, family, attempt), family=family))
        except TieError as error:
            tie = error
    assert tie is not None
    allowed = "a problem with a unique answer at some theta"
    raise ArgumentError("problem", tie.given, allowed, tie.allowed) from tie


def stand_in(features: np.ndarray, family: Any, attempt: int = 0) -> np.ndarray:
    """A theta, [d], in the range of the family; small, so that no ridge is warned of."""
    rng = np.random.default_rng(attempt)
    low, high = (getattr(family, name, end) for name, end in (("low", -np.inf), ("high", np.inf)))
    if np.isfinite(low):
        inside = rng.uniform(0.1, 0.9, features.shape[1])
        return low + inside * (high - low if np.isfinite(high) else 1.0)
    scale = getattr(family, "scale", 1.0) * (1e-6 if attempt < _TRIES // 2 else 1.0)
    return scale * rng.standard_normal(features.shape[1])
